"""Complex numbers, which TVM has none of, as pairs of real ones: an axis of 2 behind the others.

    z = view_as_complex(x) * polar(r, a)        x: (…, 2)
    y = view_as_real(z)                         y: (…, 2)

So a rotation by a product of complex numbers is imported. What else is done with complex numbers is
refused, and so are complex inputs and results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from tvm import relax

from .arithmetic.torch_powers import hypotenuse
from .fourier import complex_transform, inverse_real_transform, real_transform
from .nodes.arguments import Converter, arguments, operands, positive


def has_complex(node: fx.Node) -> bool:
    """Return whether a node's result or an operand is complex; an assertion has no result."""
    values = [node.meta.get("val"), *(a.meta.get("val") for a in node.all_input_nodes)]
    return isinstance(values[0], torch.Tensor) and any(
        isinstance(v, torch.Tensor) and v.is_complex() for v in values
    )


def convert(importer: Any, node: fx.Node) -> Any:
    """Convert a node with complex numbers; a complex result is the pairs of its numbers.

    Raises:
        NotImplementedError: Pairs of the node have no converter.
    """
    name = node.target.__name__
    converter = _PAIRS.get(name)
    if converter is None:
        raise NotImplementedError(
            f"{name} of complex numbers has no converter; compute it with real numbers "
            "(torch.view_as_real)"
        )
    declared = node.meta["val"]
    out = converter(importer, node)
    rank = declared.ndim + declared.is_complex()
    if out.ty.ndim != rank:
        raise ValueError(f"the converter's result has rank {out.ty.ndim}, expected {rank}")
    return out


def _polar(importer: Any, node: fx.Node) -> Any:
    args, emit = arguments(importer, node), importer.block_builder.emit
    size, angle = args["abs"], args["angle"]
    parts = (emit(relax.op.multiply(size, emit(f(angle)))) for f in (relax.op.cos, relax.op.sin))
    return emit(relax.op.stack(list(parts), axis=-1))


def _complex(importer: Any, node: fx.Node) -> Any:
    args, emit = arguments(importer, node), importer.block_builder.emit
    return emit(relax.op.stack([args["real"], args["imag"]], axis=-1))


def _same(importer: Any, node: fx.Node) -> Any:
    """Convert what leaves the numbers as they are."""
    return importer.env[node.args[0]]


def _copied(importer: Any, node: fx.Node) -> Any:
    """Convert a copy, also of real numbers to complex ones of the same precision or another."""
    source, result = node.args[0].meta["val"].dtype, node.meta["val"].dtype
    if source == result:
        return _same(importer, node)
    if source.is_complex:
        raise NotImplementedError(f"it casts {source} to {result}")
    emit = importer.block_builder.emit
    real = importer._astype(importer.env[node.args[0]], result.to_real())
    return emit(relax.op.stack([real, emit(relax.op.zeros_like(real))], axis=-1))


def _added(combine: Converter) -> Converter:
    """Convert a sum or difference of complex tensors, without a factor."""

    def convert(importer: Any, node: fx.Node) -> Any:
        left, right = node.args[:2]
        both = all(isinstance(n, fx.Node) and n.meta["val"].is_complex() for n in (left, right))
        if not both or node.kwargs.get("alpha", 1) != 1:
            raise NotImplementedError("an operand is real, or has a factor, expected two complex "
                                      "tensors")  # fmt: skip
        if left.meta["val"].ndim != right.meta["val"].ndim:
            raise NotImplementedError("its operands have other ranks, expected one rank")
        return importer.block_builder.emit(combine(importer.env[left], importer.env[right]))

    return convert


def _multiply(importer: Any, node: fx.Node) -> Any:
    """Convert (a + bi)(c + di) = ac - bd + (ad + bc)i, or the product with a real number."""
    emit, op = importer.block_builder.emit, relax.op
    left, right = node.args[:2]
    if isinstance(right, (int, float)):
        x = importer.env[left]
        return emit(op.multiply(x, relax.const(right, str(x.ty.dtype))))
    if not all(isinstance(n, fx.Node) for n in (left, right)):
        raise NotImplementedError(f"a factor is {right}")
    x, y = (_pairs(importer, n) for n in (left, right))
    if not all(n.meta["val"].is_complex() for n in (left, right)):
        return emit(op.multiply(x, y))
    (a, b), (c, d) = (_parts(emit, pairs) for pairs in (x, y))
    real = emit(op.subtract(emit(op.multiply(a, c)), emit(op.multiply(b, d))))
    imaginary = emit(op.add(emit(op.multiply(a, d)), emit(op.multiply(b, c))))
    return emit(op.stack([real, imaginary], axis=-1))


def _pairs(importer: Any, node: fx.Node) -> Any:
    """The pairs of an operand, or its real numbers with an axis of 1 in their place."""
    value = importer.env[node]
    if node.meta["val"].is_complex():
        return value
    return importer.block_builder.emit(relax.op.expand_dims(value, [-1]))


def _parts(emit: Callable[[Any], Any], pairs: Any) -> list[Any]:
    """The real and the imaginary parts."""
    axis = pairs.ty.ndim - 1
    halves = (relax.op.strided_slice(pairs, [axis], [k], [k + 1], assume_inbound=True)
              for k in (0, 1))  # fmt: skip
    return [emit(relax.op.squeeze(emit(half), [axis])) for half in halves]


def _unsqueezed(importer: Any, node: fx.Node) -> Any:
    args = arguments(importer, node)
    rank = node.meta["val"].ndim
    return importer.block_builder.emit(
        relax.op.expand_dims(args["self"], [positive(args["dim"], rank)])
    )


def _moved(importer: Any, node: fx.Node) -> Any:
    args = arguments(importer, node)
    rank = node.meta["val"].ndim
    order = [positive(a, rank) for a in args["dims"]]
    return importer.block_builder.emit(relax.op.permute_dims(args["self"], [*order, rank]))


def _reshaped(importer: Any, node: fx.Node) -> Any:
    shape = [*importer._sizes(node), 2]
    return importer.block_builder.emit(relax.op.reshape(importer.env[node.args[0]], shape))


def _expanded(importer: Any, node: fx.Node) -> Any:
    shape = [*importer._sizes(node), 2]
    return importer.block_builder.emit(relax.op.broadcast_to(importer.env[node.args[0]], shape))


def _part(k: int) -> Converter:
    return lambda importer, node: _parts(importer.block_builder.emit, importer.env[node.args[0]])[k]


def _size(importer: Any, node: fx.Node) -> Any:
    """Convert abs, the length of each pair."""
    pairs = importer.env[node.args[0]]
    return hypotenuse(importer, *_parts(importer.block_builder.emit, pairs))


def _moved_apart(importer: Any, node: fx.Node) -> Any:
    """Convert what moves elements, by its converter for real numbers, for each part."""
    emit = importer.block_builder.emit
    pairs = (a for a in operands(node) if a.meta["val"].is_complex())
    halves = {a: _parts(emit, importer.env[a]) for a in pairs}
    moved = []
    for k in (0, 1):
        with importer._replaced({a: parts[k] for a, parts in halves.items()}):
            moved.append(importer.of_real[node.target.__name__](node))
    return emit(relax.op.stack(moved, axis=-1))


_MOVES = ("slice.Tensor", "select.int", "cat.default", "index.Tensor", "index_select.default",
          "squeeze.dim", "squeeze.dims", "flip.default", "repeat.default")  # fmt: skip
_PAIRS: Mapping[str, Converter] = {
    "polar.default": _polar, "complex.default": _complex, "view_as_complex.default": _same,
    "view_as_real.default": _same, "alias.default": _same, "clone.default": _same,
    "_to_copy.default": _copied, "mul.Tensor": _multiply, "unsqueeze.default": _unsqueezed,
    "permute.default": _moved, "view.default": _reshaped, "_unsafe_view.default": _reshaped,
    "reshape.default": _reshaped, "expand.default": _expanded, "real.default": _part(0),
    "imag.default": _part(1), "_fft_r2c.default": real_transform, "abs.default": _size,
    "_fft_c2c.default": complex_transform, "_fft_c2r.default": inverse_real_transform,
    "add.Tensor": _added(relax.op.add), "sub.Tensor": _added(relax.op.subtract),
    **dict.fromkeys(_MOVES, _moved_apart),
}  # fmt: skip
#: Those that `program_importer` has for real numbers, too, are among its own converters.
CONVERTERS: Mapping[str, Converter] = {
    name: _PAIRS[name] for name in ("polar.default", "complex.default", "view_as_complex.default",
                                    "view_as_real.default", "real.default", "imag.default",
                                    "_fft_r2c.default", "_fft_c2c.default", "_fft_c2r.default")
}  # fmt: skip
