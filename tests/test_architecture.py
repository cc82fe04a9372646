"""Imports go one way: analysis → layout → byoc → jit; and start-up stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = {
    "analysis": {"analysis"},
    "layout": {"analysis", "layout"},
    "byoc": {"analysis", "layout", "byoc"},
    "jit": {"analysis", "layout", "byoc", "jit"},
}


def imports(path: Path, root: Path = ROOT) -> set[str]:
    """The packages of ours that a file below `root` imports, "opinfo" itself as "opinfo"."""
    found = set()
    here = path.relative_to(root).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
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
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        assert imports(path) <= ALLOWED[package], path


#: The packages of the analysis, each with those it builds on.
LAYERS = {
    "terms": set(),
    "solving": {"terms"},
    "proofs": {"terms", "solving"},
    "lifting": {"terms", "solving", "proofs"},
    "index_map": {"terms", "solving", "proofs", "lifting"},
    "real": {"terms", "solving", "proofs", "lifting"},
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_the_analysis(layer: str) -> None:
    for path in sorted((ROOT / "analysis" / layer).rglob("*.py")):
        here = path.relative_to(ROOT).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                module = node.module.split(".") if node.module else []
                full = [*here[: len(here) - node.level], *module]
                assert full[:1] == ["analysis"] and full[1] in {layer, *LAYERS[layer]}, path


def test_the_rule_sees_absolute_and_relative_imports(tmp_path: Path) -> None:
    path = tmp_path / "analysis" / "deep" / "file.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import opinfo.jit.cache\nfrom opinfo import byoc\nfrom ...layout import plan\n"
        "from ..term import Int\nfrom opinfo.report import Row\nimport numpy\n"
    )
    assert imports(path, tmp_path) == {"jit", "byoc", "layout", "analysis", "opinfo"}


def test_start_up_does_not_load_what_is_slow() -> None:
    slow = ["tvm.s_tir.tensor_intrin", "onnx", "onnxslim", "rich", "transformers"]
    code = f"import sys; from opinfo import *; print([m for m in {slow!r} if m in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
