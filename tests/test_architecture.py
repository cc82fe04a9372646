"""Imports go one way: analysis → layout → byoc → jit; and start-up stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from . import structure

ALLOWED = {
    "analysis": {"analysis"},
    "layout": {"analysis", "layout"},
    "byoc": {"analysis", "layout", "byoc"},
    "jit": {"analysis", "layout", "byoc", "jit"},
}


def imports(path: Path, tree: ast.Module) -> set[str]:
    """The opinfo packages that a file imports, by its path below the root, itself as "opinfo"."""
    found = set()
    here = path.with_suffix("").parts
    for node in structure.statements(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = ["opinfo", *here[: len(here) - node.level]] if node.level else []
            base = ".".join([*inside, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == "opinfo":
                found.add(rest.split(".")[0] if rest.split(".")[0] in ALLOWED else "opinfo")
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_never_point_back(package: str) -> None:
    files = [s for s in structure.sources().values() if s.path.parts[0] == package]
    assert len(files) > 50
    for source in files:
        assert imports(source.path, source.tree) <= ALLOWED[package], source.path


def test_no_files_import_each_other() -> None:
    """Imports inside functions count too."""
    assert structure.circles(structure.graph()) == []


def test_no_rooms_import_each_other() -> None:
    """No folder imports from one that builds on it."""
    rooms = structure.rooms()
    assert len(rooms) > 60 and "src/opinfo/cli/commands" in rooms
    assert structure.circles(rooms) == []


def test_names_are_unique() -> None:
    """Files with one subject may share a name; see `structure.RELATED`."""
    assert structure.repeated_basenames() == {}
    names = {Path(p).name for p in _files()}
    assert structure.RELATED.keys() <= names


def _files() -> list[str]:
    return [str(s.path) for s in structure.sources().values()]


def test_no_folder_is_a_corridor() -> None:
    assert structure.crowded() == {}
    assert structure.median_lines() <= structure.MEDIAN_LINES


def test_benchmarks_are_laid_out_by_the_same_rules() -> None:
    house = "benchmarks"
    assert len(structure.graph(house)) > 60 and len(structure.rooms(house)) >= 10
    assert structure.circles(structure.graph(house)) == []
    assert structure.circles(structure.rooms(house)) == []
    assert structure.crowded(house) == {} and structure.repeated_basenames(house) == {}


def test_no_folder_of_tests_is_a_corridor() -> None:
    assert structure.crowded("tests") == {}


def test_circles_are_seen_through_functions_and_types(tmp_path: Path) -> None:
    edges = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("b"), "d": frozenset("a")}
    assert structure.circles(edges) == [["b", "c"]]
    tree = ast.parse("def f():\n    from ..b import x\nif TYPE_CHECKING:\n    from . import c\n")
    here = structure.Source("opinfo.a.d", Path("a/d.py"), tree, 4)
    known = {"opinfo.b": here, "opinfo.a.c": here}
    assert set(structure.imports(here, known)) == {"opinfo.b", "opinfo.a.c"}


def test_the_rule_sees_absolute_and_relative_imports() -> None:
    tree = ast.parse(
        "import opinfo.jit.cache\nfrom opinfo import byoc\nfrom ...layout import plan\n"
        "from ..term import Int\nfrom opinfo.report import Row\nimport numpy\n"
    )
    path = Path("analysis", "deep", "file.py")
    assert imports(path, tree) == {"jit", "byoc", "layout", "analysis", "opinfo"}


def test_start_up_does_not_load_what_is_slow() -> None:
    slow = ["tvm.s_tir.tensor_intrin", "onnx", "onnxslim", "rich", "transformers"]
    code = f"import sys; from opinfo import *; print([m for m in {slow!r} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"
