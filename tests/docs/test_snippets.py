"""Every snippet of README and docs/ runs, and prints what the page says it prints.

- The ``python`` blocks of a page are one module, run in order. A ``text`` block after one is what
  was printed since the last; what nothing shows must not print.
- Of a ``console`` block each line that starts with ``$ opinfo`` is run; the lines below it are in
  its output, in this order, ``...`` stands for any others. ``opinfo: ...`` is of standard error.
- A block with a title is a part of that file, which has tests of its own.
- ``sh`` and ``bash`` blocks are for the reader's machine: commands, options and modules exist.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
import typer
from examples.models import write

from opinfo.analysis import recogniser_scope
from opinfo.analysis.support.files.user_cache import user_cache
from opinfo.byoc.backends.common import kept_object
from opinfo.byoc.backends.common.kept_file import DIGEST
from opinfo.byoc.backends.onednn.runtime_object import runtime_objects
from opinfo.cli import app, main

from ..common.kept_objects import keep_objects
from .pages import ROOT, Block, blocks, name, pages

PAGES = {name(p): p for p in pages()}
MARK = "\x1e"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model files that pages name."""
    folder = tmp_path_factory.mktemp("models")
    write(folder)
    return folder


@pytest.fixture(autouse=True)
def operators() -> Iterator[None]:
    """Other tests list the operators that can be lowered: not those that a page registers."""
    before = set(map(str, tvm.ir.Op.list_op_names()))
    yield
    for added in set(map(str, tvm.ir.Op.list_op_names())) - before:
        tvm.ir.Op.get(added).reset_attr("FLegalize")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of a reader who tries all pages, who has not calibrated the machine.

    It has the objects that g++ compiled for other tests, the same for all models.
    """
    folder = tmp_path_factory.mktemp("cache")
    runtime_objects()  # whoever needs it first compiles it
    objects = (*user_cache("onednn").glob("*.o"), *user_cache("runtimes").glob("*.o"))
    digests = [o.with_name(o.name + DIGEST) for o in objects]
    for kept in filter(Path.exists, (*objects, *digests)):
        to = folder / kept.parent.name
        to.mkdir(mode=0o700, exist_ok=True)
        shutil.copy2(kept, to)
    return folder


def test_pages_take_the_objects_of_other_tests(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(*_: Any) -> None:
        raise AssertionError("g++ is called")

    monkeypatch.setattr(kept_object, "object_file", compiled)
    monkeypatch.setenv("OPINFO_CACHE", str(cache))
    _, objects = runtime_objects()
    assert all(o.is_relative_to(cache) for o in objects)


@pytest.fixture
def folder(models: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a page, with the models in it."""
    for path in models.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    keep_objects(monkeypatch)
    monkeypatch.setenv("OPINFO_CACHE", str(cache))
    return tmp_path


def _with(*languages: str) -> list[str]:
    return [n for n, p in PAGES.items() if any(b.language in languages for b in blocks(p))]


@pytest.mark.parametrize("page", _with("python"))
def test_code_of_a_page_runs(page: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, expected = _module(blocks(PAGES[page]))
    stem = "page_" + re.sub(r"\W", "_", page)
    path = folder / f"{stem}.py"  # a file: TVMScript reads the source of what it parses
    path.write_text(code)
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[stem] = importlib.util.module_from_spec(spec)
    try:
        with recogniser_scope(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other packages
            spec.loader.exec_module(module)
    finally:
        del sys.modules[stem]
    printed = capfd.readouterr().out.split(MARK + "\n")
    assert [_lines(text) for text in printed] == [_lines(text) for text in expected]


def _module(found: list[Block]) -> tuple[str, list[str]]:
    """The page's module, each line where it is on the page, and what it prints up to each mark."""
    lines: list[str] = []
    expected: list[str] = []
    for block in (b for b in found if not b.title):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
        elif block.language == "text" and lines and not lines[-1].startswith(f"print({MARK!r})"):
            lines.append(f"print({MARK!r})")
            expected.append(block.text)
    return "\n".join(lines) + "\n", [*expected, ""]


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def test_parts_of_files() -> None:
    parts = [(n, b) for n, p in PAGES.items() for b in blocks(p) if b.title]
    assert parts
    for page, block in parts:
        whole = (ROOT / block.title).read_text()
        assert block.text.strip() in whole, f"{page}:{block.line} is not in {block.title}"


@pytest.mark.parametrize("page", _with("console"))
def test_commands_print_what_the_page_shows(
    page: str, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in blocks(PAGES[page]):
        if block.language == "console":
            for command, shown in _commands(block):
                monkeypatch.setattr(sys, "argv", shlex.split(command))
                capfd.readouterr()
                with pytest.raises(SystemExit) as exited:
                    main()
                out, err = capfd.readouterr()
                fails = any(line.startswith("opinfo: ") for line in shown)
                assert fails or not exited.value.code, f"{page}:{block.line}: {command}: {err}"
                missing = _missing(shown, _lines(out) + _lines(err))
                assert missing is None, f"{page}:{block.line}: {command}: {missing}\n{out}{err}"


def _commands(block: Block) -> list[tuple[str, list[str]]]:
    """Each command of a block, with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            assert line.startswith("$ opinfo "), f"line {block.line}: expected opinfo, got {line}"
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line.rstrip())
    return found


def _missing(shown: list[str], printed: list[str]) -> str | None:
    """The first line shown that was not printed after the one before it."""
    rest = iter(printed)
    return next((s for s in shown if s and s != "..." and s not in rest), None)


@pytest.mark.parametrize("page", _with("sh", "bash"))
def test_commands_for_the_reader(page: str) -> None:
    for block in blocks(PAGES[page]):
        if block.language in ("sh", "bash"):
            for line in block.text.replace("\\\n", " ").splitlines():
                words = shlex.split(line.removeprefix("$ "), comments=True)
                while words and re.fullmatch(r"\w+=\S*", words[0]):
                    words.pop(0)
                if words:
                    assert _exists(words), f"{page}:{block.line}: {line}"


def _exists(words: list[str]) -> bool:
    """Whether a command of this project is there, with its options; of others nothing is said."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return all(w in targets for w in words[1:])
    if words[0] == "opinfo":
        command = _command(words[1:])
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        return {w.partition("=")[0] for w in words if w.startswith("-")} <= known
    if "-m" not in words:
        return True
    module = words[words.index("-m") + 1]
    ours = module.partition(".")[0] in ("benchmarks", "examples", "tests", "opinfo")
    return not ours or importlib.util.find_spec(module) is not None


def _command(words: list[str]) -> Any:
    """The click command that words name."""
    found = typer.main.get_command(app)
    for word in words:
        if not hasattr(found, "commands") or word not in found.commands:
            break
        found = found.commands[word]
    return found
