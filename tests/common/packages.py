"""Packages with entry points, installed into a folder, directly or by pip."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def install(
    site: Path, name: str, group: str, entries: dict[str, str], files: dict[str, str],
    version: str = "1.0",
) -> None:  # fmt: skip
    """A distribution as pip leaves it: its files, its metadata, its entry points."""
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{k} = {v}\n" for k, v in entries.items()]
    (info / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}")
    (info / "RECORD").write_text("")
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


@functools.cache
def examples() -> Path:
    """A folder with the example packages, installed by pip."""
    folder = tempfile.TemporaryDirectory(prefix="opinfo-site-")
    _FOLDERS.append(folder)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "--no-deps", "--no-build-isolation", "--no-index", "--target", folder.name,
         EXAMPLES / "npu_backend", EXAMPLES / "recogniser_package"], check=True,
    )  # fmt: skip
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
