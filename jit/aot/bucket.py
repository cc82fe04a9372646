"""A static kernel over padded copies of its parameters; it serves the shapes up to the bucket.

Before: y: (n, 64) = f8(x: (n, 64)), for n <= 8
After:  X: (8, 64); X[i] = x[i] for i < n, else 0; f8's body; y[i] = Y[i] for i < n
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from ..kernels.workspace import with_workspaces
from ..padding import PaddingProof
from .kernel_variants import Bucket


def padded_body(func: Any, outer: Any, bucket: Bucket, where: str) -> Any:
    """Return the body of a bucket's kernel between copies of its padded parameters."""
    contents = _contents(bucket.padded, where)
    grown: list[Any] = []
    before: list[Any] = []
    after: list[Any] = []
    for k, (inner, outer_param) in enumerate(zip(func.params, outer.params, strict=True)):
        if k not in contents:
            view = tirx.is_buffer_var(inner)
            before.append(
                tirx.DeclBuffer(inner, data=outer_param.data)
                if view
                else tirx.Bind(inner, outer_param)
            )
            continue
        grown.append(inner)
        if contents[k].written:
            after.append(_copy(outer_param, inner, outer_param.ty.shape))
            continue
        before.append(_copy(inner, outer_param, outer_param.ty.shape))
        value = contents[k].value
        before += [] if value is None else _fill_padding(inner, outer_param.ty.shape, value)
    return tirx.SeqStmt(with_workspaces(grown, [*before, func.body, *after]))


class _Content:
    """The value that the padding of a parameter must hold, if any."""

    def __init__(self, written: bool) -> None:
        self.written = written
        self.value: float | int | None = None


def _contents(padded: Sequence[PaddingProof], where: str) -> dict[int, _Content]:
    contents: dict[int, _Content] = {}
    for proof in padded:
        for grown in proof.outputs:
            contents[grown.param] = _Content(True)
        for grown in proof.inputs:
            content = contents.setdefault(grown.param, _Content(False))
            if grown.content is None:
                continue
            if content.value is not None and content.value != grown.content:
                raise ValueError(
                    f"merge: the padding of parameter {grown.param} of {where} must be both "
                    f"{content.value} and {grown.content}"
                )
            content.value = grown.content
    return contents


def _loops(extents: Sequence[Any], dtypes: Sequence[str]) -> tuple[list[Any], Any]:
    """Return loop variables, and a function that wraps a statement in their loops."""
    loop_vars = [tirx.Var(f"i{k}", t) for k, t in enumerate(dtypes)]

    def nested(body: Any) -> Any:
        for var, extent in reversed(list(zip(loop_vars, extents, strict=True))):
            body = tirx.For(var, tirx.IntImm(var.ty.dtype, 0), extent, tirx.ForKind.SERIAL, body)
        return body

    return loop_vars, nested


def _copy(to: Any, source: Any, extents: Sequence[Any]) -> Any:
    index, nested = _loops(list(extents), _dtypes(extents))
    return nested(tirx.BufferStore(to, tirx.BufferLoad(source, index), index))


def _dtypes(extents: Sequence[Any]) -> list[str]:
    return [str(e.ty.dtype) for e in extents]


def _fill_padding(to: Any, valid: Sequence[Any], value: float | int) -> list[Any]:
    """Fill the elements outside the valid box, each exactly once.

    The part of an axis lies beyond the box along it, and within the box along earlier axes.
    """
    out = []
    dtypes = _dtypes(valid)
    full = [tirx.IntImm(t, int(e)) for t, e in zip(dtypes, to.ty.shape, strict=True)]
    for axis, (valid_extent, full_extent) in enumerate(zip(valid, full, strict=True)):
        if isinstance(valid_extent, tirx.IntImm):
            continue
        extents = [*valid[:axis], full_extent - valid_extent, *full[axis + 1 :]]
        loop_vars, nested = _loops(extents, dtypes)
        index = [v + valid_extent if k == axis else v for k, v in enumerate(loop_vars)]
        out.append(nested(tirx.BufferStore(to, tirx.const(value, str(to.ty.dtype)), index)))
    return out
