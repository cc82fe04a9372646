"""The extents that a call gives to the symbolic extents of its PrimFunc.

    f(a: Buffer[n], b: Buffer[n])  called with  x: Tensor[m], y: Tensor[k]

TVM compares m and k when the program runs. What reads a call as an operator of ``m`` and ``k``
elements must not: an addition would broadcast, and a backend read outside of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.tir.node import NodeDict, items, substitute
from ...analysis.support.tvm_compat import sym

#: The place of an argument, and its extent of the PrimFunc and of the call.
_Pair = tuple[str, Any, Any]


def unequal_extents(func: Any, call: Any, *, certain: bool = False) -> str | None:
    """What a ``call_tir`` gives to a PrimFunc that may not fit; None if all extents are equal.

    Arguments of unknown shape are not compared.

    Args:
        func: The PrimFunc.
        call: The call; its numbers of arguments are right.
        certain: Only tell of numbers that differ, with which the call fails.
    """
    for place, value, expected, source in needed_extents(func, call):
        numbers = isinstance(expected, tirx.IntImm) and isinstance(value, tirx.IntImm)
        if (numbers or not certain) and not _proved(expected, value):
            where = f" ({source})" if source else ""
            return f"{place} is {_text(value)}, where its PrimFunc has {_text(expected)}{where}"
    return None


def needed_extents(func: Any, call: Any) -> Iterator[tuple[str, Any, Any, str]]:
    """The places of extents, what a ``call_tir`` has, what its PrimFunc needs, and why.

    Arguments of unknown shape, and extents that are the same, are not among them. The PrimFunc
    needs the extent of another place if that is not empty.

    Args:
        func: The PrimFunc.
        call: The call; its numbers of arguments are right.
    """
    pairs = list(_pairs(func, call))
    if all(isinstance(a, tirx.IntImm) and _same(a, b) for _, a, b in pairs):
        return
    given: NodeDict[tuple[Any, str]] = NodeDict()
    for place, extent, value in pairs:
        if isinstance(extent, tirx.Var) and extent not in given:
            given[extent] = value, place
    values: NodeDict[Any] = NodeDict()
    for var, (value, _) in given.items():
        values[var] = value
    for place, extent, value in pairs:
        if _same(extent, value) or any(v not in given for v in _variables(extent)):
            continue
        expected = substitute(extent, values)
        if _is_int64(expected) and not _same(expected, value):
            yield place, value, expected, given[extent][1] if isinstance(extent, tirx.Var) else ""


def _pairs(func: Any, call: Any) -> Iterator[_Pair]:
    """The extents of the parameters in order, with those of the call."""
    _, arguments, *shape = call.args
    if not hasattr(arguments, "fields"):
        return
    sizes = [size for s in shape for size in items(getattr(s, "values", ()))]
    types = items(call.ty_args[0].fields) if hasattr(call.ty_args[0], "fields") else call.ty_args
    operands = [(f"operand {k}", x.ty) for k, x in enumerate(items(arguments.fields))]
    results = [(f"result {k}", ty) for k, ty in enumerate(types)]
    params = items(func.params)
    for param, size in zip(params[len(operands) + len(results) :], sizes, strict=False):
        yield f"size {param.name}", param, size
    for param, (place, ty) in zip(params, operands + results, strict=False):
        values = getattr(getattr(ty, "shape", None), "values", None)
        if not is_buffer_var(param) or not isinstance(ty, relax.TensorType) or values is None:
            continue
        for axis, pair in enumerate(zip(items(param.ty.shape), items(values), strict=False)):
            yield f"extent {axis} of {place}", *pair


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tirx.IntImm) and isinstance(b, tirx.IntImm):
        return int(a) == int(b)
    return bool(a.same_as(b))


def _is_int64(extent: Any) -> bool:
    """Whether an extent has the dtype of those of calls; sums of hand-written code may not."""
    return str(extent.ty.dtype) == "int64"


def _proved(a: Any, b: Any) -> bool:
    return bool(sym.Analyzer().can_prove_equal(a, b))


def _variables(extent: Any) -> Any:
    return tirx.analysis.undefined_vars(extent)


def _text(extent: Any) -> str:
    return str(extent.value if isinstance(extent, tirx.IntImm) else extent)
