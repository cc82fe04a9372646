"""Extents such as ``w // 4`` whose variables occur nowhere else: each is a size of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.lifting.opaque_extents import opaque_extents
from opinfo.analysis.recurrent import recurrence_operator  # noqa: F401
from opinfo.testing.strip import strip

from .test_sums_of_sizes import Extent, lowered

op = relax.op


def quarter(w: Any) -> Any:
    return w // 4


def strided(w: Any) -> Any:
    return (w - 1) // 8 + 1


def bounded(w: Any) -> Any:
    return tirx.max(w - 3, 1)


def _split(x: Any) -> Any:
    n = x.ty.shape[1]
    return op.reshape(x, relax.ShapeExpr([4, 3, n]))


def _folded(x: Any) -> Any:
    """A reshape whose extent is a product with the quotient."""
    n = x.ty.shape[1]
    return op.reshape(x, relax.ShapeExpr([12 * n]))


def _layer(x: Any, *rest: Any) -> Any:
    return op.nn.recurrence([x, *rest], "RNN", ("Tanh",))


CASES: dict[str, tuple[Any, tuple[tuple[int | Extent, ...], ...], str]] = {
    "sum": (lambda x: op.sum(x, [1]), ((2, quarter),), "relax.sum"),
    "max": (lambda x: op.max(x, [0]), ((strided, 3),), "relax.max"),
    "softmax": (lambda x: op.nn.softmax(x, -1), ((2, strided),), "relax.nn.softmax"),
    "sum of a maximum": (lambda x: op.sum(x, [1]), ((2, bounded),), "relax.sum"),
    "matmul": (op.matmul, ((4, 2, strided), (4, strided, 8)), "relax.matmul"),
    "reshape": (_split, ((12, quarter),), "relax.reshape"),
    "reshape of a product": (_folded, ((12, strided),), "relax.reshape"),
    "recurrence": (_layer, ((strided, 1, 4), (4, 4), (4,), (1, 4)), "relax.nn.recurrence"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_over_a_quotient_is_recovered(name: str) -> None:
    build, shapes, expected = CASES[name]
    info = op_info(strip(lowered(build, *shapes)))
    assert isinstance(info, OpInfo), info
    assert info.name == expected or expected == "relax.reshape"


def test_an_attribute_is_over_the_functions_own_sizes() -> None:
    func = lowered(lambda x: op.broadcast_to(x, relax.ShapeExpr([4, x.ty.shape[1]])), (1, strided))
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.broadcast_to"
    (source, *_) = (p for p in func.params if hasattr(p.ty, "shape"))
    _, extent = info.attrs["shape"]
    assert tvm.sym.Analyzer().can_prove_equal(extent, source.ty.shape[1])


def test_what_is_recovered_computes_the_same() -> None:
    """A sum over ``(w - 1) // 8 + 1`` elements, at several sizes."""
    func = lowered(lambda x: op.sum(x, [1]), (2, strided)).with_attr("global_symbol", "f")
    built = tvm.compile(tvm.IRModule({"f": func}), target="llvm")
    for w in (1, 8, 9, 40):
        data = np.random.default_rng(w).standard_normal((2, (w - 1) // 8 + 1)).astype("float32")
        out = tvm.runtime.tensor(np.zeros(2, "float32"))
        built["f"](tvm.runtime.tensor(data), w, out)
        np.testing.assert_allclose(out.numpy(), data.sum(1), rtol=1e-5)


def test_related_extents_keep_their_relation() -> None:
    """An extent is taken for a size only if its variables occur nowhere else."""
    w, n = (tirx.Var(name, "int64") for name in "wn")
    whole, half = strided(w), (strided(w) + 1) // 2
    assert [x.place for x in opaque_extents([half, whole, 8 * n * whole], [n])] == [1]
    assert opaque_extents([w // 4, w // 8], []) == []
    assert opaque_extents([w // 4, w + 1], []) == []
    assert opaque_extents([w // 4], [w]) == []
    assert opaque_extents([w // 4 * 2], []) == []


def test_a_sum_over_half_of_a_quotient_is_refused() -> None:
    """The loop ends at ``w // 8``, the buffer at ``w // 4``."""
    func = lowered(lambda x: op.sum(x, [1]), (2, quarter))
    half = tvm_ffi.structural_mutate(
        func.body, [(tirx.FloorDiv, lambda node, mutate: tirx.FloorDiv(node.a, node.b * 2))]
    )
    assert isinstance(op_info(func), OpInfo)
    info = op_info(func.with_body(half))
    assert isinstance(info, Refusal), info
