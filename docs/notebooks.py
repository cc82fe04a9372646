"""A hook of mkdocs: run the tutorials as notebooks, and make pages of them.

A tutorial is a Python file in jupytext's percent format. A cell that raises fails the build. The
notebook with its outputs becomes a Markdown page, so that mkdocs checks its links, and a file to
download. ``OPINFO_TUTORIALS=0`` shows the cells without running them, for a quick look.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

from opinfo.byoc.process.without_torch import command

#: Notebooks that run at a time, each in a process of its own.
WORKERS = 2
#: Seconds that a cell may take.
SECONDS = 300
TUTORIALS = "tutorials"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page and a notebook for each tutorial."""
    sources = sorted(Path(config.docs_dir, TUTORIALS).glob("[0-9]*.py"))
    for source, notebook in zip(sources, executed(sources), strict=True):
        name = f"{TUTORIALS}/{source.stem}"
        files.append(File.generated(config, f"{name}.md", content=page(notebook, source.stem)))
        files.append(File.generated(config, f"{name}.ipynb", content=nbformat.writes(notebook)))
    return files


def executed(sources: Sequence[Path]) -> list[Any]:
    """The notebooks with the outputs of their cells.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell raises.
    """
    if os.environ.get("OPINFO_TUTORIALS") == "0":
        return [jupytext.read(source) for source in sources]
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(execute, sources))


def execute(source: Path) -> Any:
    """A notebook with the outputs of its cells, run in the folder of its file.

    TVM does not import torch there, which takes seconds; a cell may.
    """
    notebook = jupytext.read(source)
    place = {"metadata": {"path": str(source.parent)}}
    with tempfile.TemporaryDirectory() as folder:  # sockets are files there: no port is opened
        sockets = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
        client = NotebookClient(
            notebook, timeout=SECONDS, kernel_name="python3", resources=place, config=sockets
        )
        client.create_kernel_manager().kernel_spec.argv = [*command("ipykernel_launcher"), "-f",
                                                           "{connection_file}"]  # fmt: skip
        client.execute()
    return notebook


def page(notebook: Any, name: str) -> str:
    """A notebook as Markdown, with a link to the file under its title."""
    body, _ = MarkdownExporter().from_notebook_node(notebook)
    title, _, rest = body.lstrip().partition("\n")
    return f"{title}\n\n[Download this notebook]({name}.ipynb){{ download }}\n{rest}"
