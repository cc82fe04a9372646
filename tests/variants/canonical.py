"""Calls whose differences do not change what they compute, in one form."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping, Sequence
from string import ascii_lowercase as LETTERS
from typing import Any

import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.call_op import constructor
from opinfo.analysis.support.tvm_compat import GenericConst, array_of

from . import Variant


def plain_call(call: Any) -> dict[str, Any]:
    """Everything in a call but its tensors, by the names of the constructor's parameters."""
    names = list(inspect.signature(constructor(str(call.op.name))).parameters)
    out: dict[str, Any] = {}
    for k, a in enumerate(call.args):
        if not _tensors(a):
            out[names[k] if k < len(names) else str(k)] = plain(a)
    for f in type(call.attrs).__tvm_ffi_type_info__.fields if call.attrs is not None else ():
        out[str(f.name)] = plain(getattr(call.attrs, f.name))
    return out


def _tensors(a: Any) -> bool:
    if isinstance(a, relax.Tuple):
        return bool(a.fields) and all(map(_tensors, a.fields))
    return isinstance(a, tvm.ir.Var) and isinstance(a.ty, relax.TensorType)


def plain(a: Any) -> Any:
    """A value of Python; a symbolic one is what it is at some points."""
    if a is None or isinstance(a, (bool, int, float, str)):
        return a
    if isinstance(a, (tirx.IntImm, tirx.FloatImm)):
        return bool(a.value) if str(a.ty.dtype) == "bool" else a.value
    if isinstance(a, relax.ShapeExpr):
        return [plain(x) for x in a.values]
    if isinstance(a, relax.Tuple):
        return [plain(x) for x in a.fields]
    if isinstance(a, GenericConst):
        return [str(array_of(a).dtype), array_of(a).numpy().tolist()]
    if isinstance(a, tirx.IndexMap):
        return _moved(a)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return [plain(x) for x in a]
    if type(getattr(a, "ty", None)).__name__ == "PrimType":
        return [at(a, point) for point in POINTS]
    return str(a)


POINTS = tuple({c: p + 3 * (ord(c) % 7) for c in LETTERS} for p in (5, 31, 58))


def at(e: Any, sizes: Mapping[str, int]) -> int:
    """A dimension for sizes given by name."""
    kind = type(e).__name__
    if kind in ("IntImm", "int"):
        return int(e)
    if kind == "Var":
        return sizes[str(e.name)]
    if kind == "Cast":
        return at(e.value, sizes)
    if kind == "Call":
        return at(e.args[1 if at(e.args[0], sizes) else 2], sizes)
    return int(_ARITHMETIC[kind](at(e.a, sizes), at(e.b, sizes)))


_ARITHMETIC: dict[str, Any] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod, "Min": min, "Max": max, "LT": operator.lt, "LE": operator.le,
    "GT": operator.gt, "GE": operator.ge, "EQ": operator.eq, "NE": operator.ne,
}  # fmt: skip


def _moved(m: Any) -> list[list[int]]:
    """An index map at some coordinates."""
    points = [
        [(7 * k + 3 * d + k * d) % 5 for d in range(len(m.initial_indices))] for k in range(9)
    ]
    return [[int(x) for x in m.map_indices(p)] for p in points]


def canonical(v: Variant, attrs: dict[str, Any], rank: int, call: Any) -> None:
    """Write in one way what TVM lets be written in several: negative axes, all axes, defaults."""
    for key in ("axis", "axes", "channel_axis"):
        value = attrs.get(key)
        if isinstance(value, int) and value < 0:
            attrs[key] = value + rank + (v.op in ("relax.stack", "relax.one_hot"))
        elif isinstance(value, list) and all(isinstance(a, int) for a in value):
            attrs[key] = [a + rank if a < 0 else a for a in value]
            if v.op not in ("relax.permute_dims", "relax.strided_slice"):
                attrs[key] = sorted(attrs[key])
    if v.op in SWEEPS and attrs.get("axis") is None:
        attrs["axis"] = list(range(rank))
    if v.op in ("relax.argmax", "relax.argmin") and attrs.get("axis") is None and rank == 1:
        attrs["axis"] = 0
    if v.op == "relax.permute_dims" and attrs.get("axes") is None:
        attrs["axes"] = list(range(rank))[::-1]
    if v.op == "relax.strided_slice":
        _slices(attrs, call)
    for key in ("out_dtype", "dtype"):
        if attrs.get(key) in ("", "void", None) and key in attrs:
            attrs[key] = str(_first(call.ty).dtype)


def _first(ty: Any) -> Any:
    return ty.fields[0] if hasattr(ty, "fields") else ty


SWEEPS = tuple(f"relax.{n}" for n in ("sum", "prod", "max", "min", "mean", "variance", "std"))


def _slices(attrs: dict[str, Any], call: Any) -> None:
    """Ranges by axis, from 0 to the extent; a negative bound counts from the end."""
    if attrs.get("strides") is None:
        attrs["strides"] = [1] * len(attrs["axes"])
    shape = [plain(e) for e in call.args[0].ty.shape.values]
    order = sorted(range(len(attrs["axes"])), key=lambda k: attrs["axes"][k])
    for key in ("axes", "begin", "end", "strides"):
        attrs[key] = [attrs[key][k] for k in order]
    for k, axis in enumerate(attrs["axes"]):
        extent = shape[axis]
        if not isinstance(extent, int):
            continue
        for key in ("begin", "end"):
            value, down = attrs[key][k], attrs["strides"][k] < 0
            if isinstance(value, int):
                value = value + extent if -extent <= value < 0 else value
                low, high = (-extent - 1, extent - 1) if down else (0, extent)
                attrs[key][k] = max(min(value, high), low)
