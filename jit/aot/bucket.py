"""A static kernel over padded copies of its parameters; it serves the shapes up to the bucket.

Before: y: (n, 64) = f8(x: (n, 64)), for n <= 8
After:  X: (8, 64); X[i] = x[i] for i < n, 0 for the rest; f8's body; y[i] = Y[i] for i < n
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ..kernels.workspace import with_workspaces
from ..padding import Padded
from .kernel_variants import Bucket


def held(func: Any, outer: Any, bucket: Bucket, where: str) -> Any:
    """Return the body of a bucket's kernel between copies of its padded parameters."""
    contents = _contents(bucket.padded, where)
    grown: list[Any] = []
    before: list[Any] = []
    after: list[Any] = []
    for k, (inner, given) in enumerate(zip(func.params, outer.params, strict=True)):
        if k not in contents:
            view = tirx.is_buffer_var(inner)
            before.append(
                tirx.DeclBuffer(inner, data=given.data) if view else tirx.Bind(inner, given)
            )
            continue
        grown.append(inner)
        if contents[k].written:
            after.append(_copy(given, inner, given.ty.shape))
            continue
        before.append(_copy(inner, given, given.ty.shape))
        value = contents[k].value
        before += [] if value is None else _rest(inner, given.ty.shape, value)
    return tirx.SeqStmt(with_workspaces(grown, [*before, func.body, *after]))


class _Content:
    """The value that the padding of a parameter must hold, if any."""

    def __init__(self, written: bool) -> None:
        self.written = written
        self.value: float | int | None = None


def _contents(padded: Sequence[Padded], where: str) -> dict[int, _Content]:
    found: dict[int, _Content] = {}
    for p in padded:
        for grown in p.outputs:
            found[grown.param] = _Content(True)
        for grown in p.inputs:
            held = found.setdefault(grown.param, _Content(False))
            if grown.content is None:
                continue
            if held.value is not None and held.value != grown.content:
                raise ValueError(
                    f"merge: the padding of parameter {grown.param} of {where} must be both "
                    f"{held.value} and {grown.content}"
                )
            held.value = grown.content
    return found


def _loops(extents: Sequence[Any], dtypes: Sequence[str]) -> tuple[list[Any], Any]:
    """Return loop variables, and a function that wraps a statement in their loops."""
    names = [tirx.Var(f"i{k}", t) for k, t in enumerate(dtypes)]

    def nested(body: Any) -> Any:
        for v, extent in reversed(list(zip(names, extents, strict=True))):
            body = tirx.For(v, tirx.IntImm(v.ty.dtype, 0), extent, tirx.ForKind.SERIAL, body)
        return body

    return names, nested


def _copy(to: Any, source: Any, extents: Sequence[Any]) -> Any:
    index, nested = _loops(list(extents), _dtypes(extents))
    return nested(tirx.BufferStore(to, tirx.BufferLoad(source, index), index))


def _dtypes(extents: Sequence[Any]) -> list[str]:
    return [str(e.ty.dtype) for e in extents]


def _rest(to: Any, valid: Sequence[Any], value: float | int) -> list[Any]:
    """Fill the elements outside the valid box, each of them once.

    The part of an axis lies beyond the box along it, and within the box along earlier axes.
    """
    out = []
    dtypes = _dtypes(valid)
    full = [tirx.IntImm(t, int(e)) for t, e in zip(dtypes, to.ty.shape, strict=True)]
    for axis, (inside, whole) in enumerate(zip(valid, full, strict=True)):
        if isinstance(inside, tirx.IntImm):
            continue
        extents = [*valid[:axis], whole - inside, *full[axis + 1 :]]
        names, nested = _loops(extents, dtypes)
        index = [v + inside if k == axis else v for k, v in enumerate(names)]
        out.append(nested(tirx.BufferStore(to, tirx.const(value, str(to.ty.dtype)), index)))
    return out
