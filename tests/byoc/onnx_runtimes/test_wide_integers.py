"""OpenVINO computes int64 in 32 bits: it gets a file only if its results stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile_file import FileRefused
from opinfo.jit.arguments.acceptor import BoundaryError

from .wide_cases import BOOL, EDGES, F32, I64, in_openvino, model, op, oracle

pytestmark = [
    pytest.mark.skipif(bool(find("openvino").available()), reason="no OpenVINO"),
    pytest.mark.skipif(bool(find("onnxruntime").available()), reason="no ONNX Runtime"),
]
N = len(EDGES)
ARRAYS = {
    "c": np.int64(5), "zero": np.int64(0), "most": np.int64(2**24 - 1),
    "least": np.int64(-(2**24) + 1), "end": np.int64(2**24), "start": np.int64(-(2**24)),
    "far": np.int64(2**40), "row": np.array([1, N], "int64"), "four": np.array([4, -1], "int64"),
    "wider": np.array([3, N], "int64"), "axis": np.array([0], "int64"),
    "first": np.array([2], "int64"), "flat": np.array([-1], "int64"),
    "last": np.array([2**63 - 1], "int64"),
    "odd": np.arange(N) % 2 == 1, "even": np.arange(0, N, 2), "small": np.arange(N),
}  # fmt: skip
COMPARED = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"]
#: What stands between the input and a comparison with 5.
MOVES: dict[str, list[Any]] = {
    "nothing": [],
    "reshape": [op("Reshape", ["m", "four"], "x")],
    "unsqueeze": [op("Unsqueeze", ["m", "axis"], "x")],
    "transpose": [op("Reshape", ["m", "four"], "r"), op("Transpose", ["r"], "x")],
    "expand": [op("Expand", ["m", "wider"], "x")],
    "slice": [op("Slice", ["m", "first", "last"], "x")],
    "gather": [op("Gather", ["m", "even"], "x")],
    "concat": [op("Concat", ["m", "small", "m"], "x", axis=0)],
    "where": [op("Where", ["odd", "m", "small"], "x")],
    "max": [op("Max", ["m", "zero"], "x")],
    "min": [op("Min", ["m", "small"], "x")],
    "clip": [op("Clip", ["m", "zero", "most"], "x")],
    "max of unsqueezed": [op("Unsqueeze", ["m", "axis"], "u"), op("Max", ["u", "least"], "x")],
}  # fmt: skip


def _file(nodes: Any, kind: int = BOOL, result: Any = None, **inputs: Any) -> Any:
    """A file of an input `m` with all numbers, and of others."""
    names = {n for node in nodes for n in node.input}
    given = {n: (t, s) for n, (t, s) in {"m": (I64, [N]), **inputs}.items() if n in names}
    result = [N] if result is None else result
    return model(nodes, given, {"y": (kind, result)},
                 {n: a for n, a in ARRAYS.items() if n in names})  # fmt: skip


def _same(nodes: Any, folder: Path, kind: int = BOOL, rank: int = 1, **values: Any) -> None:
    """The build of a file returns what ONNX Runtime does, and `m` is not changed."""
    values = {"m": EDGES.copy(), **values}
    types = {"int64": I64, "float32": F32, "bool": BOOL}
    inputs = {n: (types[str(v.dtype)], v.shape) for n, v in values.items()}
    file = _file(nodes, kind, [None] * rank, **inputs)
    values = {i.name: values[i.name] for i in file.graph.input}
    expected = oracle(file, values)
    np.testing.assert_array_equal(in_openvino(file, folder).run(*values.values()), expected)
    np.testing.assert_array_equal(values.get("m", EDGES), EDGES)


def test_a_comparison_of_wide_integers(tmp_path: Path) -> None:
    pairs = [(n, *pair) for n in COMPARED for c in ("zero", "c", "most", "least")
             for pair in (("m", c), (c, "m"))]  # fmt: skip
    nodes = [op(n, pair, f"y{k}") for k, (n, *pair) in enumerate(pairs)]
    _same([*nodes, op("Concat", [f"y{k}" for k in range(len(pairs))], "y", axis=0)], tmp_path)


@pytest.mark.parametrize("reader", ["Greater", "Cast"])
def test_a_comparison_of_moved_integers(reader: str, tmp_path: Path) -> None:
    """Each move is of its own names; all results are in one tensor."""
    nodes, results = [], []
    for k, moves in enumerate(MOVES.values()):
        for move in moves:
            node = onnx.NodeProto.FromString(move.SerializeToString())
            node.input[:] = [n if n in ARRAYS or n == "m" else f"{n}{k}" for n in node.input]
            node.output[0] += str(k)
            nodes.append(node)
        x = f"x{k}" if moves else "m"
        read = {"Greater": op("Greater", [x, "c"], f"z{k}"), "Cast": op("Cast", [x], f"z{k}", to=9)}
        nodes += [read[reader], op("Reshape", [f"z{k}", "flat"], f"y{k}")]
        results.append(f"y{k}")
    _same([*nodes, op("Concat", results, "y", axis=0)], tmp_path)


def test_a_mask_with_any_numbers(tmp_path: Path) -> None:
    nodes = [op("Unsqueeze", ["m", "axis"], "u"), op("Equal", ["u", "zero"], "e"),
             op("Cast", ["e"], "f", to=F32), op("Mul", ["f", "s"], "t"),
             op("Add", ["x", "t"], "y")]  # fmt: skip
    random = np.random.default_rng(0)
    x, s = random.standard_normal((3, N), "float32"), np.full((1,), -1e9, "float32")
    _same(nodes, tmp_path, F32, 2, x=x, s=s)


REFUSED = {
    "the greatest of float32": [op("Less", ["m", "end"], "y")],
    "the least of float32": [op("Greater", ["m", "start"], "y")],
    "a number of 41 bits": [op("Less", ["m", "far"], "y")],
    "two inputs": [op("Less", ["m", "n"], "y")],
    "itself": [op("Slice", ["m", "first", "last"], "x"), op("Gather", ["m", "first"], "g"),
               op("Less", ["x", "g"], "y")],
    "a sum": [op("Add", ["m", "c"], "x"), op("Greater", ["x", "c"], "y")],
    "a difference": [op("Sub", ["m", "c"], "x"), op("Cast", ["x"], "y", to=BOOL)],
    "a product": [op("Mul", ["m", "c"], "x"), op("Cast", ["x"], "y", to=BOOL)],
    "a remainder": [op("Mod", ["m", "c"], "x"), op("Greater", ["x", "zero"], "y")],
    "a negative": [op("Neg", ["m"], "x"), op("Greater", ["x", "zero"], "y")],
    "a position": [op("ArgMax", ["m"], "x", axis=0), op("Greater", ["x", "c"], "y")],
    "a cast to float32": [op("Cast", ["m"], "x", to=F32), op("Cast", ["x"], "y", to=BOOL)],
    "a cast to int32": [op("Cast", ["m"], "x", to=6), op("Cast", ["x"], "y", to=BOOL)],
    "a cast to int8": [op("Cast", ["m"], "x", to=3), op("Cast", ["x"], "y", to=BOOL)],
    "a wide maximum": [op("Max", ["m", "far"], "x"), op("Greater", ["x", "c"], "y")],
    "a wide choice": [op("Where", ["odd", "m", "far"], "x"), op("Greater", ["x", "c"], "y")],
    "also a sum": [op("Greater", ["m", "c"], "a"), op("Add", ["m", "m"], "x"),
                   op("Greater", ["x", "c"], "b"), op("And", "ab", "y")],
    "a sum of what is moved": [op("Unsqueeze", ["m", "axis"], "u"), op("Add", ["u", "c"], "x"),
                               op("Cast", ["x"], "y", to=BOOL)],
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_64_bits(name: str, tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="which OpenVINO"):
        in_openvino(_file(REFUSED[name], n=(I64, [N])), tmp_path)


RETURNED = {
    "the input": [op("Identity", ["m"], "y")],
    "a reshape": [op("Reshape", ["m", "row"], "y")],
    "a maximum": [op("Max", ["m", "zero"], "y")],
    "a choice": [op("Where", ["odd", "m", "small"], "y")],
}


@pytest.mark.parametrize("name", RETURNED)
def test_a_clamped_tensor_is_not_a_result(name: str, tmp_path: Path) -> None:
    file = _file(RETURNED[name], I64, [1, N] if name == "a reshape" else [N])
    with pytest.raises(FileRefused, match="beyond 2"):
        in_openvino(file, tmp_path)


TABLE = np.random.default_rng(1).standard_normal((100, 4)).astype("float32")
IDS = np.array([[0, 99, -100, -1], [5, 6, 7, 8]], "int64")


def _ids_file(*more: Any, kind: int = F32, **constants: Any) -> Any:
    """Rows of a table at ids, of which a value is computed as well."""
    nodes = [
        op("Gather", ["table", "ids"], "rows"),
        op("ReduceSum", ["rows", "axes"], "r", keepdims=0),
        *more,
    ]
    arrays = {"table": TABLE, "axes": np.array([-1], "int64"), **constants}
    shapes = {"ids": (I64, [2, 4])}
    return model(nodes, shapes, {"y": (kind, [2, 4])}, arrays)


def test_ids_have_the_bounds_that_the_call_checks(tmp_path: Path) -> None:
    file = _ids_file(op("Mul", ["ids", "c"], "p"), op("Add", ["p", "c"], "q"),
                     op("Cast", ["q"], "f", to=F32), op("Add", ["f", "r"], "y"),
                     c=np.int64(100_000))  # fmt: skip
    built = in_openvino(file, tmp_path)
    np.testing.assert_allclose(built.run(IDS), oracle(file, {"ids": IDS}), rtol=1e-6)
    for wrong in (2**31, 2**32, 2**32 + 5, -(2**31) - 1, 100, -101):
        ids = IDS.copy()
        ids[1, 2] = wrong
        with pytest.raises(BoundaryError, match=f"has the element {wrong}"):
            built.run(ids)


@pytest.mark.parametrize("name", ["product", "comparison", "maximum"])
def test_numbers_beside_ids_are_small_too(name: str, tmp_path: Path) -> None:
    """The ids are from -100 to 99."""
    node, constant = {"product": ("Mul", 2**18), "comparison": ("Less", 2**40),
                      "maximum": ("Min", 2**31)}[name]  # fmt: skip
    file = _ids_file(op(node, ["ids", "c"], "p"), op("Cast", ["p"], "f", to=F32),
                     op("Add", ["f", "r"], "y"), c=np.int64(constant))  # fmt: skip
    with pytest.raises(FileRefused, match="which OpenVINO"):
        in_openvino(file, tmp_path)


def test_a_mask_beside_ids_is_clamped_and_ids_are_checked(tmp_path: Path) -> None:
    """Ids, types and a mask, as language models have them."""
    nodes = [op("Gather", ["table", "ids"], "a"), op("Gather", ["types", "kinds"], "b"),
             op("Add", ["a", "b"], "s"), op("Unsqueeze", ["mask", "last"], "u"),
             op("Equal", ["u", "zero"], "off"), op("Where", ["off", "none", "s"], "y")]  # fmt: skip
    arrays = {"table": TABLE, "types": TABLE[:2], "last": np.array([-1], "int64"),
              "zero": np.int64(0), "none": np.float32(0)}  # fmt: skip
    shapes = {n: (I64, [2, 4]) for n in ("ids", "kinds", "mask")}
    file = model(nodes, shapes, {"y": (F32, [2, 4, 4])}, arrays)
    built = in_openvino(file, tmp_path)
    mask = np.array([[0, 1, 2**32, -(2**40)], [2**31, -(2**31) - 1, 0, 2**63 - 1]], "int64")
    inputs = {"ids": IDS, "kinds": IDS % 2, "mask": mask}
    np.testing.assert_allclose(built.run(*inputs.values()), oracle(file, inputs), rtol=1e-6)
    with pytest.raises(BoundaryError, match="argument kinds has the element 2"):
        built.run(IDS, IDS % 2 + 1, mask)


def test_an_exported_library_clamps_too(tmp_path: Path) -> None:
    """Nothing checks its arguments."""
    file = _file([op("Greater", ["m", "c"], "y")])
    in_openvino(file, tmp_path).export(tmp_path / "library.so")
    module = tvm.runtime.load_module(str(tmp_path / "library.so"))
    main = relax.VirtualMachine(module, tvm.cpu())["main"]
    for numbers in (EDGES, EDGES[::-1].copy(), np.full_like(EDGES, 2**32)):
        out = main(tvm.runtime.tensor(numbers)).numpy()
        np.testing.assert_array_equal(out, numbers > 5)


def test_rows_of_an_input_that_index_have_the_bounds_that_are_checked(tmp_path: Path) -> None:
    """As the edges of a graph: they are checked before the file, so that their sums are small."""
    nodes = [op("Gather", ["edges", "zero"], "from"), op("Gather", ["x", "from"], "rows"),
             op("Cast", ["from"], "f", to=F32), op("Unsqueeze", ["f", "last"], "u"),
             op("Add", ["rows", "u"], "y")]  # fmt: skip
    file = model(nodes, {"edges": (I64, [2, 5]), "x": (F32, [4, 3])}, {"y": (F32, [5, 3])},
                 {"zero": np.int64(0), "last": np.array([-1])})  # fmt: skip
    edges = np.array([[0, 3, -4, 1, 2], [2**31, 2**32, -(2**40), 4, -5]], "int64")
    inputs = {"edges": edges, "x": TABLE[:4, :3].copy()}
    built = in_openvino(file, tmp_path)
    np.testing.assert_array_equal(built.run(*inputs.values()), oracle(file, inputs))
    for wrong in (2**32, 2**31, 4, -5):
        edges[0, 2] = wrong
        with pytest.raises(ValueError, match="take at an element that is outside of its axis"):
            built.run(*inputs.values())


def test_numbers_beside_rows_that_index_are_small_too(tmp_path: Path) -> None:
    nodes = [op("Gather", ["edges", "zero"], "from"), op("Gather", ["x", "from"], "rows"),
             op("Mul", ["from", "far"], "p"), op("Cast", ["p"], "f", to=F32),
             op("ReduceSum", ["rows", "last"], "r", keepdims=0),
             op("Add", ["r", "f"], "y")]  # fmt: skip
    file = model(nodes, {"edges": (I64, [2, 5]), "x": (F32, [4, 3])}, {"y": (F32, [5])},
                 {"zero": np.int64(0), "last": np.array([-1]), "far": np.int64(2**23)})  # fmt: skip
    with pytest.raises(FileRefused, match="which OpenVINO rounds"):
        in_openvino(file, tmp_path)
