"""Differences between versions of TVM are in one file; code that needs the newest says so."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import tirx

import opinfo
from opinfo.analysis import Refusal, op_info
from opinfo.analysis.blocks.block_terms import Opaque
from opinfo.analysis.blocks.blocks import stages
from opinfo.analysis.support import tvm_compat

from . import oldest

ROOT = Path(__file__).parent.parent
SEAM = ROOT / "analysis/support/tvm_compat.py"
#: What runs on all versions: `front` as far as it inspects, plans and raises.
ROOMS = ("analysis", "layout", "byoc/prepare", "byoc/fusion")
#: Names that the seam gives, and what an access calls its buffer.
MOVED = {name for name in tvm_compat.__all__ if name[0].isupper() and not name.isupper()} | {"sym"}
#: Rooms whose import says that the TVM is too old.
NEWEST = {f"opinfo.{room}" for room in ("byoc.dispatching", "byoc.matching", "byoc.patterns",
                                        "jit.config", "byoc.dims")}  # fmt: skip
OLDER = tvm_compat.VERSION < tvm_compat.COMPLETE


def moved(tree: ast.AST) -> Iterator[str]:
    """Names of the seam that a file takes from TVM itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            module = str(node.module)
            names = [a.name for a in node.names] + module.split(".")
            yield from (n for n in names if module.split(".")[0] == "tvm" and n in MOVED)
        elif isinstance(node, ast.Attribute) and node.attr in MOVED:
            if ast.unparse(node.value) in ("tvm", "tvm.ir", "ir", "s_tir", "tvm.s_tir", "relax",
                                           "tvm.relax", "s_tir.transform"):  # fmt: skip
                yield ast.unparse(node)


def test_only_the_seam_names_what_moved() -> None:
    files = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    assert len(files) > 200 and SEAM in files
    found = {p: set(moved(ast.parse(p.read_text()))) for p in files if p != SEAM}
    assert {p: names for p, names in found.items() if names} == {}
    assert len(SEAM.read_text().splitlines()) <= 300


def test_the_rule_sees_names_that_moved() -> None:
    text = "import tvm\nfrom tvm.sym import x\ntvm.ir.TensorLoad\nfrom tvm.s_tir import SBlock\n"
    assert set(moved(ast.parse(text))) == {"sym", "tvm.ir.TensorLoad", "SBlock"}


def test_expected_failures_are_tests_that_run() -> None:
    assert all((ROOT / path).exists() for path in oldest.paths())
    for name in (*oldest.FAILS, *oldest.KEPT):
        assert name.split("::")[0] in oldest.RUNS, name
        function = name.split("::")[1].split("[")[0]
        assert f"def {function}(" in (ROOT / "tests" / name.split("::")[0]).read_text(), name


def test_of_many_cases_a_part_is_kept() -> None:
    (name,) = oldest.KEPT
    cases = [f"{net}-{mode}" for net in "abc" for mode in ("tir", "graph")]
    ids = [*(f"tests/{name}[{case}]" for case in cases), "tests/other.py::test[a-tir]"]
    items: list[Any] = [SimpleNamespace(nodeid=i) for i in ids]
    oldest.leave_out(items)
    left = [item.nodeid.rpartition("::")[2] for item in items]
    test = name.rpartition("::")[2]
    assert left == [f"{test}[{case}]" for case in ("a-tir", "b-graph", "c-tir")] + ["test[a-tir]"]
    assert oldest.first_of_each(["ab", "cd", "ae", "cf"], lambda case: case[0]) == ["ab", "cd"]


def test_what_needs_a_newer_tvm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tvm_compat, "COMPLETE", (9, 1))
    with pytest.raises(ImportError, match=r"opinfo\.jit needs apache-tvm >= 9\.1, got ") as error:
        tvm_compat.require_complete("opinfo.jit")
    assert error.value.name == "tvm" and "\n" not in str(error.value)


def test_rooms_of_all_versions_import_no_others() -> None:
    """Else they would need the newest TVM, too."""
    code = (
        "import sys; sys.modules['torch'] = None;"  # TVM would import it
        "from opinfo import inspect, load, plan; from opinfo.transform import RaiseOps;"
        "import opinfo.layout.plan;"
        "print(*sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & NEWEST


@pytest.mark.skipif(not OLDER, reason="of this version everything runs")
@pytest.mark.parametrize("name", ["byoc.dispatch", "jit.Session", "compile"])
def test_dispatch_and_kernels_refuse_an_older_tvm(name: str) -> None:
    room, _, last = name.rpartition(".")
    with pytest.raises(ImportError, match=r"needs apache-tvm >= 0\.27, got 0\.26"):
        getattr(getattr(opinfo, room) if room else opinfo, last)
    code = "from opinfo.cli import main; main()"
    command = [sys.executable, "-c", code, "compile", "model.onnx", "-o", "model.so"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and run.stderr.count("\n") == 1


SOURCE = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.sblock("block"):
            v = T.axis.spatial(8, i)
            out[v] = x[v] + T.float32(1)
"""


@pytest.mark.skipif(not OLDER, reason="accesses of this version have no predicate")
@pytest.mark.parametrize("kind", [tirx.BufferStore, tvm_compat.TensorLoad])
def test_an_access_under_a_predicate_is_refused(kind: type) -> None:
    func = tvm.script.from_source(SOURCE)
    assert not isinstance(op_info(func), Refusal)
    no = tirx.IntImm("bool", 0)

    def predicated(node: tvm_ffi.Object) -> tvm_ffi.Object:
        if kind is tirx.BufferStore:
            return tirx.BufferStore(node.buffer, node.value, node.indices, no)
        return tirx.BufferLoad(node.buffer, node.indices, no)

    func = func.with_body(tvm_ffi.structural_map(func.body, (kind, predicated)))
    found = op_info(func)
    assert isinstance(found, Refusal) and "predicated" in found.reason
    with pytest.raises(Opaque, match="predicated"):
        stages(func)


def test_accesses_of_two_buffers_differ() -> None:
    """Structural equality of 0.26 says that they do not; of regions, that of 0.27 neither."""
    a, b = (tirx.decl_buffer((8,), "float32", name=name) for name in "ab")
    table, other = (tirx.decl_buffer((8,), "int64", name=name) for name in ("table", "other"))
    i = tirx.Var("i", "int64")
    load = tirx.BufferLoad
    assert tvm_compat.same_access(load(a, [i]), load(a, [i]))
    assert not tvm_compat.same_access(load(a, [i]), load(b, [i]))
    assert not tvm_compat.same_access(load(a, [load(table, [i])]), load(a, [load(other, [i])]))
    regions = [tirx.stmt.BufferRegion(x, [tvm.ir.Range(i, i + 1)]) for x in (a, b)]
    assert not tvm_compat.same_access(*regions)
    assert tvm_compat.access_key(load(a, [i])) != tvm_compat.access_key(load(b, [i]))
    assert tvm_compat.access_key(load(a, [i])) == tvm_compat.access_key(load(a, [i]))
