"""Arithmetic and reductions that TVM's importer lacks, or reads without all arguments."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from tvm import relax, tirx

from ...formulas.float_extrema import extremum_of_floats
from ..nodes.arguments import Converter, arguments, positive, tensor


def _scaled(op: Callable[[Any, Any], Any]) -> Converter:
    """Convert ``self op alpha * other``; TVM's importer ignores alpha."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        left, right, alpha = args["self"], args["other"], args.get("alpha", 1)
        emit = importer.block_builder.emit
        dtype = importer.computed(node)
        dtype = "uint8" if dtype == "bool" else dtype
        left, right = tensor(importer, left, dtype), tensor(importer, right, dtype)
        if alpha != 1:
            right = emit(relax.op.multiply(right, relax.const(alpha, right.ty.dtype)))
        return emit(op(left, right))

    return convert


def _reversed(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    emit, left, alpha = importer.block_builder.emit, args["self"], args["alpha"]
    if alpha != 1:
        left = emit(relax.op.multiply(left, relax.const(alpha, left.ty.dtype)))
    return emit(relax.op.subtract(tensor(importer, args["other"], left.ty.dtype), left))


def _celu(importer: Any, node: Any) -> Any:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    args = arguments(importer, node)
    x, alpha = args["self"], float(args["alpha"])
    zero, one, scale = (relax.const(v, x.ty.dtype) for v in (0.0, 1.0, alpha))
    below = relax.op.multiply(
        scale, relax.op.subtract(relax.op.exp(relax.op.divide(x, scale)), one)
    )
    return importer.block_builder.emit(
        relax.op.add(relax.op.nn.relu(x), relax.op.minimum(zero, below))
    )


def _extreme(largest: bool) -> Converter:
    """Convert amax, amin, and max and min of all elements."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, dims = args["self"], args.get("dim") or []
        axes = [positive(axis, x.ty.ndim) for axis in dims] or list(range(x.ty.ndim))
        return _extremum(importer, x, axes, args.get("keepdim", False), largest)

    return convert


def _extremum(importer: Any, x: Any, axes: list[int], keep: bool, largest: bool) -> Any:
    """Return the largest or smallest elements; of infinities too, and of truth values."""
    emit, dtype = importer.block_builder.emit, str(x.ty.dtype)
    if x.ty.ndim == 0:
        return x
    if "float" in dtype:
        return importer.block_builder.emit_te(extremum_of_floats, x, axes, keep, largest)
    data = emit(relax.op.astype(x, "uint8")) if dtype == "bool" else x
    return emit((relax.op.max if largest else relax.op.min)(data, axes, keepdims=keep))


def _extreme_at(largest: bool) -> Converter:
    """Convert max.dim and min.dim: the values, and the first position of each."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        x, keep = args["self"], args["keepdim"]
        axes = [positive(args["dim"], x.ty.ndim)]
        place = _place(importer, x, args["dim"], keep, largest)
        return [_extremum(importer, x, axes, keep, largest), place]

    return convert


def _place_of(largest: bool) -> Converter:
    """Convert argmax and argmin, of an axis or of all elements."""

    def convert(importer: Any, node: Any) -> Any:
        args = arguments(importer, node)
        return _place(importer, args["self"], args["dim"], args["keepdim"], largest)

    return convert


def _place(importer: Any, x: Any, axis: int | None, keep: bool, largest: bool) -> Any:
    """Return the first position of the extremum.

    TVM's is -1 where no element is beyond the finite number from which it starts: all integers are
    equal there, and it is 0; of real numbers, it is the first that is not the least (for a minimum,
    the greatest) infinity, else 0.
    """
    emit = importer.block_builder.emit
    find = relax.op.argmax if largest else relax.op.argmin
    x = emit(relax.op.astype(x, "uint8")) if str(x.ty.dtype) == "bool" else x
    place = emit(find(x, axis, keep))
    if "float" not in str(x.ty.dtype):
        return emit(relax.op.maximum(place, relax.const(0, "int64")))
    limit = relax.const(float("-inf" if largest else "inf"), x.ty.dtype)
    finite = emit(relax.op.astype(emit(relax.op.not_equal(x, limit)), "float32"))
    first = emit(relax.op.argmax(finite, axis, keep))
    return emit(relax.op.where(emit(relax.op.less(place, relax.const(0, "int64"))), first, place))


def _any(importer: Any, node: Any) -> Any:
    """Whether an element is not 0: the maximum of truth values as uint8, which is 0 for none."""
    args = arguments(importer, node)
    emit, dim = importer.block_builder.emit, args.get("dim")
    truth = emit(relax.op.astype(emit(relax.op.astype(args["self"], "bool")), "uint8"))
    axes = list(dim) if isinstance(dim, (list, tuple)) else dim
    most = emit(relax.op.max(truth, axes, keepdims=args.get("keepdim", False)))
    return emit(relax.op.astype(most, "bool"))


def _all_true(importer: Any, node: Any) -> Any:
    emit, x = importer.block_builder.emit, arguments(importer, node)["self"]
    least = emit(relax.op.min(emit(relax.op.astype(x, "uint8"))))
    return emit(relax.op.astype(least, "bool"))


def _prod(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    dtype = node.meta["val"].dtype
    x = importer._astype(args["self"], dtype)
    return importer.block_builder.emit(
        relax.op.prod(x, args.get("dim"), keepdims=args.get("keepdim", False))
    )


def _variance(importer: Any, node: Any) -> Any:
    """Convert var.correction: the sum of squares by ``n - correction``, for symbolic n too."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    correction = 1 if args["correction"] is None else args["correction"]
    dims, rank = args["dim"], x.ty.ndim
    dims = list(range(rank)) if not dims else [dims] if isinstance(dims, int) else list(dims)
    variance = emit(relax.op.variance(x, dims, keepdims=args["keepdim"]))
    if correction == 0:
        return variance
    extents = [x.ty.shape[positive(axis, rank)] for axis in dims]
    count = functools.reduce(operator.mul, extents)
    if isinstance(count, tirx.IntImm):
        left = count.value - correction
        ratio: Any = relax.const(count.value / left if left > 0 else float("nan"), x.ty.dtype)
    else:
        total = tensor(importer, count, x.ty.dtype)
        ratio = emit(relax.op.divide(total, relax.op.subtract(
            total, relax.const(float(correction), x.ty.dtype))))  # fmt: skip
    return emit(relax.op.multiply(variance, ratio))


def _mean_with_variance(importer: Any, node: Any) -> Any:
    args = arguments(importer, node)
    axes = list(args["dim"]) if isinstance(args["dim"], (list, tuple)) else args["dim"]
    mean = relax.op.mean(args["self"], axes if axes != [] else None, keepdims=args["keepdim"])
    return [_variance(importer, node), importer.block_builder.emit(mean)]


def _cumulative(importer: Any, node: Any) -> Any:
    """Convert cumsum and cumprod of elements in torch's result type, which int32 may leave."""
    args = arguments(importer, node)
    emit, data, dtype = importer.block_builder.emit, args["self"], importer.computed(node)
    if str(data.ty.dtype) != dtype:
        data = emit(relax.op.astype(data, dtype))
    op = getattr(relax.op, node.target._schema.name.partition("::")[2])
    return emit(op(data, args["dim"]))


def _clamp(importer: Any, node: Any) -> Any:
    """Convert clamp; a bound that is absent is left out, since integers have no infinity."""
    args = arguments(importer, node)
    emit, x = importer.block_builder.emit, args["self"]
    dtype = x.ty.dtype
    for name, op in (("min", relax.op.maximum), ("max", relax.op.minimum)):
        if args.get(name) is not None:
            x = emit(op(x, tensor(importer, args[name], dtype)))
    return x


def _elu(importer: Any, node: Any) -> Any:
    """``scale * (max(0, x) + alpha * min(0, exp(input_scale * x) - 1))``; selu is one of these."""
    args = arguments(importer, node)
    x = args["self"]
    alpha, scale, inner, one, zero = (
        relax.const(float(v), x.ty.dtype)
        for v in (args["alpha"], args["scale"], args["input_scale"], 1, 0)
    )
    inside = x if args["input_scale"] == 1 else relax.op.multiply(x, inner)
    below = relax.op.minimum(zero, relax.op.subtract(relax.op.exp(inside), one))
    out = relax.op.add(relax.op.nn.relu(x), relax.op.multiply(alpha, below))
    return importer.block_builder.emit(out if args["scale"] == 1 else relax.op.multiply(out, scale))


def refuse_random(importer: Any, node: Any) -> Any:
    raise NotImplementedError("it draws random numbers, which a compiled model cannot; pass them "
                              "to the model as an input")  # fmt: skip


_RANDOM = ("rand.default", "rand_like.default", "randn.default", "randn_like.default",
           "randint.default", "randint.low", "randperm.default", "bernoulli.default",
           "bernoulli.p", "exponential.default", "normal.float_float")  # fmt: skip

CONVERTERS: Mapping[str, Converter] = {
    "add.Tensor": _scaled(relax.op.add),
    "add.Scalar": _scaled(relax.op.add),
    "sub.Tensor": _scaled(relax.op.subtract),
    "sub.Scalar": _scaled(relax.op.subtract),
    "rsub.Tensor": _reversed, "rsub.Scalar": _reversed,
    "celu.default": _celu,
    **{f"{name}.default": _extreme(largest)
       for name, largest in (("amax", True), ("amin", False), ("max", True), ("min", False))},
    "max.dim": _extreme_at(True), "min.dim": _extreme_at(False),
    "argmax.default": _place_of(True), "argmin.default": _place_of(False),
    "any.default": _any, "any.dim": _any, "any.dims": _any,
    "_is_all_true.default": _all_true, "_is_any_true.default": _any,
    "prod.default": _prod, "prod.dim_int": _prod,
    "var.correction": _variance, "var_mean.correction": _mean_with_variance,
    "cumsum.default": _cumulative, "cumprod.default": _cumulative,
    "clamp.default": _clamp, "clamp.Tensor": _clamp, "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "elu.default": _elu,
    **dict.fromkeys(_RANDOM, refuse_random),
}  # fmt: skip
