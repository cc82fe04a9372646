"""Running extremes and sums of exponentials, for which Relax has no operator."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from ..nodes.arguments import Converter, arguments, positive
from ..nodes.declared_types import parts_of

op = relax.op
#: TVM's ``op_pattern`` of what is not fused.
_OPAQUE = 8
#: Emits the step at position k: the input, the outputs, the place before and that of the element.
Step = Callable[[Any, Sequence[Any], Any, Any, Any], None]


def _scan(importer: Any, x: Any, axis: int, step: Step, dtypes: Sequence[str]) -> list[Any]:
    """Return tensors of the shape of `x`, each element computed from the one before it."""
    emit, builder = importer.block_builder.emit, importer.block_builder
    shape, axis = list(x.ty.shape), positive(axis, x.ty.ndim)
    outer, inner = (functools.reduce(operator.mul, part, tirx.IntImm("int64", 1))
                    for part in (shape[:axis], shape[axis + 1 :]))  # fmt: skip
    flat = emit(op.reshape(x, [outer, shape[axis], inner]))

    def compute(data: Any) -> Any:
        def body(ins: Sequence[Any], outs: Sequence[Any]) -> Any:
            with IRBuilder() as ir:
                with (
                    T.serial(0, data.shape[0]) as i,
                    T.serial(0, data.shape[2]) as j,
                    T.serial(0, data.shape[1]) as k,
                ):
                    buffers = [T.buffer_proxy(b) for b in (*ins, *outs)]
                    before = (i, tirx.max(k - 1, 0), j)
                    step(buffers[0], buffers[1:], before, (i, k, j), k)
                return ir.get()

        shapes = [data.shape] * len(dtypes)
        return te.extern(shapes, [data], body, dtype=list(dtypes), name="scan")

    whole = builder.emit_te(compute, flat, primfunc_attrs={"op_pattern": _OPAQUE})
    parts = parts_of(importer, whole, len(dtypes))
    return [emit(op.reshape(part, shape)) for part in parts]


def _is_nan(x: Any) -> Any:
    """Return whether an element is NaN; TVM takes ``x != x`` for false, and has no bfloat16."""
    return tirx.isnan(x.astype("float32") if str(x.ty.dtype) == "bfloat16" else x)


def _extreme(largest: bool) -> Converter:
    """Convert cummax and cummin: the last of equal elements, and NaN once there is one."""

    def step(data: Any, outs: Sequence[Any], before: Any, here: Any, k: Any) -> None:
        values, places = outs
        x, former = data[here], values[before]
        beyond = x >= former if largest else x <= former
        takes = tirx.any(k == 0, _is_nan(x), tirx.all(tirx.Not(_is_nan(former)), beyond))
        places[here] = tirx.if_then_else(takes, k, places[before])
        values[here] = tirx.if_then_else(takes, x, former)

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, emit = args["self"], importer.block_builder.emit
        if str(x.ty.dtype) == "bool":
            x = emit(op.astype(x, "uint8"))
        return _scan(importer, x, args["dim"], step, [str(x.ty.dtype), "int64"])

    return convert


def _logcumsumexp(importer: Any, node: Any) -> Any:
    """Convert logcumsumexp: ``log(exp(a) + exp(b))`` of each element and the one before."""
    args = arguments(importer, node)

    def step(data: Any, outs: Sequence[Any], before: Any, here: Any, k: Any) -> None:
        x, former = data[here], outs[0][before]
        more, less = tirx.max(former, x), tirx.min(former, x)
        total = more + tirx.log(tirx.exp(less - more) + tirx.const(1.0, more.ty.dtype))
        alone = tirx.all(more == less, tirx.isinf(more))
        total = tirx.if_then_else(alone, x, total)
        total = tirx.if_then_else(tirx.any(_is_nan(x), _is_nan(former)), former + x, total)
        outs[0][here] = tirx.if_then_else(k == 0, x, total)

    x = args["self"]
    return _scan(importer, x, args["dim"], step, [str(x.ty.dtype)])[0]


CONVERTERS: Mapping[str, Converter] = {
    "cummax.default": _extreme(True), "cummin.default": _extreme(False),
    "logcumsumexp.default": _logcumsumexp,
}  # fmt: skip
