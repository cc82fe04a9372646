"""Convolutions of an image's patches that do not overlap, as products of matrices.

Before: y = R.nn.conv2d(x, w, strides=16)            x: (32, 3, 224, 224), w: (768, 3, 16, 16)
After:  p = R.permute_dims(R.reshape(x, (32, 3, 14, 16, 14, 16)), (0, 2, 4, 1, 3, 5))
        y = R.permute_dims(R.reshape(R.matmul(R.reshape(p, (6272, 768)), w0), …), (0, 3, 1, 2))

The batch, and the height and width of the image, may be symbolic, if they are proved multiples.
Each product is of the same numbers, in the same order. A bias by channel and a cast come along, so
that they are in the epilogue of the product. Permutations of permutations become one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from ....analysis.support.tvm_compat import GenericConst, array_of
from ...patterns.extents.symbolic_extents import extent_of, quotient
from ..mutation.bindings import bound_value
from ..mutation.mutate import mutated, named

#: Channels of an image; convolutions of more are fast as they are.
IMAGE = 4
_HALVES = ("float16", "bfloat16")


def patch_products(mod: Any) -> Any:
    """The module with patches of halves multiplied; the input is not changed."""
    return relax.transform.DeadCodeElimination()(mutated(mod, _Patches(mod)))


@relax.expr_functor.mutator
class _Patches(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces convolutions of patches by products, and moves biases and casts into their rows."""

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if named(call, "relax.nn.conv2d"):
            return self.product(call) if _is_patches(call) else call
        if named(call, "relax.add") or named(call, "relax.astype"):
            return self.sunk(call)
        return self.permuted(call) if named(call, "relax.permute_dims") else call

    def product(self, call: Any) -> Any:
        """The convolution as a product of (patches, elements)."""
        data, weights = call.args
        n, c = data.ty.shape.values[0], int(data.ty.shape.values[1])
        out, _, kh, kw = (int(e) for e in weights.ty.shape.values)
        high, wide = call.ty.shape.values[2:]
        emit = self.builder_.emit
        parts = emit(relax.op.reshape(data, (n, c, high, kh, wide, kw)))
        parts = emit(relax.op.permute_dims(parts, [0, 2, 4, 1, 3, 5]))
        rows = emit(relax.op.reshape(parts, (n * high * wide, c * kh * kw)))
        matrix = np.ascontiguousarray(array_of(weights).numpy().reshape(out, -1).T)
        dtype = str(weights.ty.dtype)
        result = emit(relax.op.matmul(rows, relax.const(matrix, dtype), str(call.ty.dtype)))
        return self.moved(result, (n, high, wide, out))

    def moved(self, rows: Any, shape: tuple[Any, ...]) -> Any:
        """The result with channels first."""
        pixels = self.builder_.emit(relax.op.reshape(rows, shape))
        return relax.op.permute_dims(pixels, [0, 3, 1, 2])

    def sunk(self, call: Any) -> Any:
        """A sum with a bias by channel, or a cast, before the result is moved."""
        patch_product = self.rows(call.args[0])
        if patch_product is None:
            return call
        rows, shape = patch_product
        if named(call, "relax.astype"):
            return self.moved(self.builder_.emit(relax.op.astype(rows, call.attrs.dtype)), shape)
        bias = call.args[1]
        if not isinstance(bias, GenericConst) or bias.ty.ndim not in (3, 4):
            return call
        array = array_of(bias).numpy()
        if array.shape[-3:] != (int(shape[3]), 1, 1) or array.size != int(shape[3]):
            return call
        row = relax.const(np.ascontiguousarray(array.reshape(-1)), str(bias.ty.dtype))
        return self.moved(self.builder_.emit(relax.op.add(rows, row)), shape)

    def rows(self, expr: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """The rows of a product that `moved` moved, and their shape before that."""
        move = bound_value(self, expr)
        pixels = bound_value(self, move.args[0]) if _is_move(move) else None
        if pixels is None or not named(pixels, "relax.reshape") or not _has_shapes(pixels):
            return None
        product, shape = pixels.args[0], tuple(pixels.ty.shape.values)
        local = isinstance(product, relax.DataflowVar) and not isinstance(expr, relax.DataflowVar)
        columns = extent_of(product.ty.shape.values[-1]) if product.ty.ndim == 2 else None
        if (
            local
            or not isinstance(columns, int)
            or len(shape) != 4
            or (columns != extent_of(shape[3]))
        ):
            return None
        source = bound_value(self, product)
        while named(source, "relax.add") or named(source, "relax.astype"):
            source = bound_value(self, source.args[0])
        return (product, shape) if named(source, "relax.matmul") else None

    def permuted(self, call: Any) -> Any:
        """Two permutations as one, or as none."""
        first = bound_value(self, call.args[0])
        if not named(first, "relax.permute_dims") or None in (first.attrs.axes, call.attrs.axes):
            return call
        rank = call.ty.ndim
        order = [int(first.attrs.axes[int(a) % rank]) % rank for a in call.attrs.axes]
        source = first.args[0]
        if isinstance(source, relax.DataflowVar) and not isinstance(
            call.args[0], relax.DataflowVar
        ):
            return call
        return source if order == list(range(rank)) else relax.op.permute_dims(source, order)


def _is_move(call: Any) -> bool:
    return named(call, "relax.permute_dims") and call.attrs.axes is not None and (
        [int(a) for a in call.attrs.axes] == [0, 3, 1, 2])  # fmt: skip


def _has_shapes(expr: Any) -> bool:
    """Whether the extents of a tensor are known, perhaps as expressions; of its operand, too."""
    return all(getattr(getattr(e.ty, "shape", None), "values", None) is not None
               for e in (expr, expr.args[0]))  # fmt: skip


def _is_patches(call: Any) -> bool:
    """Whether a convolution of an image in halves has windows side by side."""
    data, weights = call.args
    attrs = call.attrs
    if not _has_shapes(call):
        return False
    shape = [extent_of(e) for e in data.ty.shape.values]
    result = [extent_of(e) for e in call.ty.shape.values]
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    if layouts not in (("NCHW", "OIHW", "NCHW"), ("NCHW", "OIHW", "")):
        return False
    if not isinstance(weights, GenericConst) or str(data.ty.dtype) not in _HALVES:
        return False
    window = [int(e) for e in weights.ty.shape.values][2:]
    plain = not any(map(int, attrs.padding)) and all(int(d) == 1 for d in attrs.dilation)
    sides = [int(s) for s in attrs.strides] == window and int(attrs.groups) == 1
    whole = all(quotient(e, k) == r for e, k, r in zip(shape[2:], window, result[2:], strict=True))
    few = isinstance(shape[1], int) and shape[1] <= IMAGE
    return plain and sides and whole and few and max(window) > 1
