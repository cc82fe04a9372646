"""Products with stored weights whose number of columns is known at each call only, as numpy's."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from .weight_only_cases import (
    BACKENDS,
    PRODUCTS,
    M,
    Product,
    Quantized,
    check_close,
    check_every_product_taken,
    compiled_for,
)

op, nn = relax.op, relax.op.nn
V, K = (tvm.tirx.Var(name, "int64") for name in "vk")
NAMES = (
    "2 bits", "3 bits, partial words", "4 bits", "8 bits", "3 bits by rows", "4 bits by rows",
    "a partial group", "long groups", "4 bits, groups of 128", "uint8", "float zero points",
    "float32 scales", "float16", "einsum", "float16 after it", "operators after it",
)  # fmt: skip
SOME = ("3 bits, partial words", "4 bits", "4 bits by rows", "float zero points", "float16")
#: Rows and columns; a panel has 32 columns, a vector 16.
SIZES = ((1, 0), (0, 5), (1, 1), (1, 5), (9, 5), (3, 31), (1, 32), (1, 33), (9, 33), (130, 31))
CASES = [("", name) for name in NAMES] + [("haswell", name) for name in SOME]


def _symbol(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")


def _of(product: Product, columns: int) -> Product:
    shape = (columns, product.depth) if product.transposed else (product.depth, columns)
    return replace(product, weights=replace(product.weights, shape=shape))


def _open(q: Quantized, extent: Any = V) -> list[Any]:
    """The words, scales and zero points, with a symbolic extent across the groups."""
    shapes = [list(a.shape) for a in q.arrays()]
    for shape in shapes:
        shape[1 - q.axis] = extent
    return [relax.Var(f"w{k}", relax.TensorType(shape, str(a.dtype)))
            for k, (shape, a) in enumerate(zip(shapes, q.arrays(), strict=True))]  # fmt: skip


def _module(products: dict[str, Product], rows: Any = M, columns: Any = V) -> Any:
    builder = relax.BlockBuilder()
    for name, p in products.items():
        shapes = (rows, p.depth), (rows, columns), (columns,)
        x, z, bias = (relax.Var(n, relax.TensorType(s, p.dtype))
                      for n, s in zip(("x", "z", "bias"), shapes, strict=True))  # fmt: skip
        parts = _open(p.weights, columns)
        with builder.function(_symbol(name), [x, z, bias, *parts]):
            with builder.dataflow():
                after = p.after if p.after == "cast" else ""
                y = replace(p, after="").result(builder.emit, x, z, parts)
                if p.after == "silu":
                    y = builder.emit(nn.silu(builder.emit(op.add(y, bias))))
                    y = builder.emit(op.multiply(z, y))
                y = builder.emit_output(op.astype(y, "float32") if after else y)
            builder.emit_func_output(y)
    return builder.get()


@cache
def _compiled(cpu: str) -> CompiledModule:
    return compiled_for(cpu, _module({n: PRODUCTS[n] for c, n in CASES if c == cpu}))


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_every_product_is_one_region(cpu: str) -> None:
    check_every_product_taken(_compiled(cpu), sum(c == cpu for c, _ in CASES))


@pytest.mark.parametrize(("cpu", "name"), CASES)
def test_products_equal_those_of_numpy(cpu: str, name: str) -> None:
    function = _compiled(cpu).machine()[_symbol(name)]
    rng = np.random.default_rng(0)
    for rows, columns in SIZES:
        p = _of(PRODUCTS[name], columns)
        x, z = (rng.standard_normal((rows, n)).astype(p.dtype) for n in (p.depth, columns))
        bias = p.bias().astype(p.dtype)
        got = function(*map(tvm.runtime.tensor, (x, z, bias, *p.weights.arrays()))).numpy()
        expected = replace(p, after="" if p.after == "cast" else p.after).expected(x, z)
        assert got.shape == (rows, columns)
        check_close(got, expected, p.dtype)


CHAIN = Product(Quantized((7, 96), zeros="float16"), after="silu")
ROWS = {"one_row": 1, "as_many_rows": V}
DEPTHS = {"symbolic_columns": V, "five_columns": 5}


@cache
def _together() -> CompiledModule:
    """What the tests below call, in one library: g++ compiles what all products need once."""
    several = {"chain": _module({"main": CHAIN})}
    several |= {name: _module({"main": PRODUCTS["4 bits"]}, rows) for name, rows in ROWS.items()}
    several |= {name: _symbolic_depth((K, 12, 3), count) for name, count in DEPTHS.items()}
    functions = {name: mod["main"].with_attr("global_symbol", name)
                 for name, mod in several.items()}  # fmt: skip
    compiled = compile_module(tvm.IRModule(functions), BACKENDS)
    check_every_product_taken(compiled, len(functions))
    return compiled


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_one_or_as_many_as_columns(name: str) -> None:
    p = _of(PRODUCTS["4 bits"], 33)
    x = np.random.default_rng(0).standard_normal((1 if ROWS[name] == 1 else 33, p.depth))
    z, bias = (np.zeros(s, "float32") for s in ((len(x), p.columns), p.columns))
    tensors = map(tvm.runtime.tensor, (x.astype("float32"), z, bias, *p.weights.arrays()))
    found = _together().machine()[name](*tensors).numpy()
    np.testing.assert_allclose(found, p.expected(x, z), 1e-4, 1e-4)


WRONG = {
    ("words", (6, 12)): r"weights of shape \[6, 12\] have 6 columns, expected 7 as in the result",
    ("scales", (6, 3)): r"weights of shape \[6, 3\] have 6 columns, expected 7",
    ("zeros", (8, 3)): r"weights of shape \[8, 3\] have 8 columns, expected 7",
    ("out", (3, 6)): r"weights of shape \[7, 12\] have 7 columns, expected 6 .* \[3, 6\]",
    ("x", (2, 96)): r"activations of shape \[2, 96\] and a result of \[3, 7\], expected the same",
    ("bias", (6,)): r"an operand of shape \[6\] does not broadcast to the result of \[3, 7\]",
    ("z", (3, 6)): r"an operand of shape \[3, 6\] does not broadcast to the result of \[3, 7\]",
}


def _tensors() -> dict[str, Any]:
    """What the region of `CHAIN` is called with, in order."""
    rng = np.random.default_rng(0)
    x, z = (rng.standard_normal((3, n)).astype("float32") for n in (CHAIN.depth, CHAIN.columns))
    words, scales, zeros = CHAIN.weights.arrays()
    return {"words": words, "scales": scales, "zeros": zeros, "x": x,
            "bias": CHAIN.bias().astype("float32"), "z": z, "out": np.zeros_like(z)}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_region_refuses_shapes_that_contradict(wrong: tuple[str, tuple[int, ...]]) -> None:
    library = tvm.runtime.load_module(str(_together().library))
    (symbol,) = (t.symbol for t in _together().dispatched.taken if "relax.nn.silu" in t.ops)
    region, arrays = library.get_function(symbol, query_imports=True), _tensors()
    tensors = {name: tvm.runtime.tensor(a) for name, a in arrays.items()}
    region(*tensors.values())
    expected = CHAIN.expected(arrays["x"], arrays["z"])
    np.testing.assert_allclose(tensors["out"].numpy(), expected, 1e-4, 1e-4)
    name, shape = wrong
    tensors[name] = tvm.runtime.tensor(np.zeros(shape, arrays[name].dtype))
    with pytest.raises(ValueError, match=f"{symbol}: {WRONG[wrong]}"):
        region(*tensors.values())


@pytest.mark.parametrize(("name", "shape"), [("words", (6, 12)), ("scales", (8, 3))])
def test_a_call_refuses_weights_that_contradict(name: str, shape: tuple[int, ...]) -> None:
    arrays = _tensors()
    arrays[name] = np.zeros(shape, arrays[name].dtype)
    order = ("x", "z", "bias", "words", "scales", "zeros")
    with pytest.raises(RuntimeError, match=r"shape\[0\] mismatch"):
        _together().machine()["chain"](*(tvm.runtime.tensor(arrays[n]) for n in order))


def _symbolic_depth(extents: tuple[Any, Any, Any], columns: Any) -> Any:
    """A product whose rows, words and scales have such extents along the groups."""
    rows, words, groups = extents
    types = ((M, rows), "float32"), ((columns, words), "uint32"), ((columns, groups), "float32")
    x, w, s = (relax.Var(f"p{k}", relax.TensorType(*t)) for k, t in enumerate(types))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w, s]):
        with builder.dataflow():
            q = builder.emit(group_dequantize(w, s, bits=4, group_size=32, axis=1))
            y = builder.emit_output(op.matmul(x, builder.emit(op.permute_dims(q))))
        builder.emit_func_output(y)
    return builder.get()


@pytest.mark.parametrize("name", DEPTHS)
def test_rows_of_another_length_are_an_error(name: str) -> None:
    words, scales = replace(CHAIN.weights, shape=(5, 96), scales="float32").arrays()[:2]
    x = np.zeros((2, 95), "float32")
    with pytest.raises(
        ValueError, match=r"activations of shape \[2, 95\] have 95 values, expected 96"
    ):
        _together().machine()[name](*map(tvm.runtime.tensor, (x, words, scales)))


def test_symbolic_groups_stay() -> None:
    done = dispatch(prepare(_symbolic_depth((32 * K, 4 * K, K), V), BACKENDS), BACKENDS)
    assert not done.taken
    assert any("the extent of the matrix along the groups is symbolic" in left.why
               for left in done.left)  # fmt: skip


def test_a_large_number_of_columns_is_taken_beside_tvm() -> None:
    """A symbolic extent counts as 64, for TVM and for the backend."""
    lowered = prepare(_module({"main": PRODUCTS["4 bits"]}), BACKENDS)
    done = dispatch(lowered, BACKENDS, {"weight_only": 1, "tvm": 1})
    assert [t.backend for t in done.taken] == ["weight_only"] and not done.left


def test_tensors_without_elements_that_numpy_made() -> None:
    """Their strides are 0."""
    given = {**_tensors(), "x": np.zeros((0, 96), "float32"), "z": np.zeros((0, 7), "float32")}
    order = ("x", "z", "bias", "words", "scales", "zeros")
    views = [tvm_ffi.from_dlpack(given[name], require_alignment=1) for name in order]
    result = _together().machine()["chain"](*views)
    assert np.from_dlpack(result).shape == (0, 7)
