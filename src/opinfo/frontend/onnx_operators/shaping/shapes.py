"""Operators on shapes: Shape, Reshape, Expand, ConstantOfShape, Tile and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx

from ...onnx_graph.attributes import array, dtype_name
from ...onnx_graph.conversion.converter_table import converts
from ...onnx_graph.conversion.tvm_converters import convert
from ...onnx_graph.onnx_node import OnnxNode
from ...onnx_graph.scalars import is_expr
from ...onnx_graph.size_arithmetic import SizeArithmetic
from ...onnx_graph.values import Dim, TensorValue, constant, elements_value
from .data_bounds import shape_by_data


@converts("Constant")
def constant_node(node: OnnxNode) -> TensorValue:
    """Return the tensor, number or list of numbers of a Constant."""
    kinds = {"value_int": "int64", "value_ints": "int64", "value_float": "float32",
             "value_floats": "float32"}  # fmt: skip
    for name, dtype in kinds.items():
        if name in node.attrs:
            return constant(np.array(node.attrs[name], dtype))
    if "value" not in node.attrs:
        node.refuse(f"its value is {', '.join(node.attrs) or 'missing'}, expected numbers")
    return constant(array(node.attrs["value"]))


@converts("Shape")
def shape(node: OnnxNode) -> TensorValue:
    """Return the sizes of a tensor, or a range of them."""
    dims = node.shape(0)[slice(node.attr("start", 0), node.attr("end"))]
    return _sizes(dims, (len(dims),))


@converts("Size")
def total(node: OnnxNode) -> TensorValue:
    """Return the number of elements of a tensor."""
    return _sizes([product(node.shape(0), node.arithmetic)], ())


def _sizes(dims: Sequence[Dim], shape: tuple[int, ...]) -> TensorValue:
    elements = np.empty(len(dims), object)
    elements[:] = list(dims)
    return elements_value(elements.reshape(shape), "int64")


def product(dims: Sequence[Dim], arithmetic: SizeArithmetic) -> Dim:
    """Return the product of sizes."""
    result: Dim = 1
    for dim in dims:
        result = arithmetic.multiply(result, dim)
    return result


@converts("Reshape")
def reshape(node: OnnxNode) -> Any:
    """Reshape; 0 copies a size, and -1 is what remains."""
    own = node.shape(0)
    if node.has(1) and node.value(1).elements is None:
        target = shape_by_data(node, 1, own, product(own, node.arithmetic))
        return relax.op.reshape(node.tensor(0), target)
    if node.has(1):
        target = node.integers(1, "the shape")
    else:  # the attribute of operator set 1
        target = list(node.attr("shape"))
    if not node.attr("allowzero", 0):
        target = [own[k] if _is(d, 0) and k < len(own) else d for k, d in enumerate(target)]
    return node.reshape(node.tensor(0), with_rest(node, own, target))


def with_rest(node: OnnxNode, own: Sequence[Dim], target: Sequence[Dim]) -> list[Dim]:
    """Replace -1 in a shape by the size that remains of `own`, if possible without division."""
    if not any(_is(d, -1) for d in target):
        return list(target)
    left, right = _factors(own), [d for d in target if not _is(d, -1)]
    right = _factors(right)
    for factor in list(right):
        match = next((k for k, f in enumerate(left) if node.arithmetic.equal(f, factor)), None)
        if match is not None:
            left.pop(match)
            right.remove(factor) if isinstance(factor, int) else right.pop(_place(right, factor))
    top, bottom = product(left, node.arithmetic), product(right, node.arithmetic)
    rest = node.arithmetic.floor_divide(top, bottom) if not _is(bottom, 1) else top
    return [rest if _is(d, -1) else d for d in target]


def _place(items: Sequence[Any], item: Any) -> int:
    return next(k for k, x in enumerate(items) if x is item)


def _factors(dims: Sequence[Dim]) -> list[Dim]:
    """Split sizes into factors; numbers stay whole."""
    result: list[Dim] = []
    for dim in dims:
        if isinstance(dim, tirx.Mul):
            parts = [int(p.value) if isinstance(p, tirx.IntImm) else p for p in (dim.a, dim.b)]
            result += _factors(parts)
        else:
            result.append(dim)
    number = int(np.prod([d for d in result if isinstance(d, int)], dtype=object))
    return [d for d in result if not isinstance(d, int)] + ([number] if number != 1 else [])


def _is(dim: Dim, number: int) -> bool:
    return isinstance(dim, int) and dim == number


@converts("Flatten")
def flatten(node: OnnxNode) -> Any:
    """Flatten to two dimensions, before and from an axis."""
    dims, axis = node.shape(0), int(node.attr("axis", 1))
    if not -len(dims) <= axis <= len(dims):
        node.refuse(f"axis is {axis}, expected -{len(dims)} to {len(dims)}")
    axis += len(dims) if axis < 0 else 0
    sizes = [product(part, node.arithmetic) for part in (dims[:axis], dims[axis:])]
    return node.reshape(node.tensor(0), sizes)


@converts("Squeeze")
def squeeze(node: OnnxNode) -> Any:
    """Drop dimensions of size 1; a symbolic size is checked at run time."""
    dims = node.shape(0)
    if node.has(1):
        axes = [int(x) for x in node.array(1, "axes").reshape(-1)]
    elif node.attr("axes") is not None:
        axes = list(node.attr("axes"))
    else:
        axes = [k for k, d in enumerate(dims) if _is(d, 1)]
        for size in filter(is_expr, dims):  # of 1, it would be dropped, and change the rank
            node.require(tirx.NE(size, tirx.IntImm("int64", 1)))
        return relax.op.squeeze(node.tensor(0), axes) if axes else node.tensor(0)
    axes = [axis % len(dims) for axis in axes]
    target = [1 if k in axes else d for k, d in enumerate(dims)]
    data = node.cast_shape(node.tensor(0), target)
    return relax.op.squeeze(data, axes) if axes else data


@converts("Unsqueeze")
def unsqueeze(node: OnnxNode) -> Any:
    """Insert dimensions of size 1; axes are those of the result."""
    axes = list(node.attr("axes") or [])
    if node.has(1):
        axes = [int(x) for x in node.array(1, "axes").reshape(-1)]
    rank = node.rank(0) + len(axes)
    if any(not -rank <= axis < rank for axis in axes) or len({a % rank for a in axes}) < len(axes):
        node.refuse(f"axes are {axes}, expected different ones from -{rank} to {rank - 1}")
    return (
        relax.op.expand_dims(node.tensor(0), sorted(a % rank for a in axes))
        if axes
        else (node.value(0))
    )


@converts("Expand")
def expand(node: OnnxNode) -> Any:
    """Broadcast to a shape, in both directions.

    A size of the shape may be 1 in any place, where it is data or that of the tensor is a number;
    other symbolic sizes of both are equal.
    """
    dims, target = node.shape(0), node.sizes(1, "the shape")
    rank = max(len(dims), len(target))
    dims = [1] * (rank - len(dims)) + dims
    target = [1] * (rank - len(target)) + target
    is_data = node.value(1).elements is None
    target = [_kept(node, d, t) if is_expr(t) and (is_data or not is_expr(d)) and not _is(d, 1)
              else t for d, t in zip(dims, target, strict=True)]  # fmt: skip
    goal = [d if _is(t, 1) or node.arithmetic.equal(d, t) else t
            for d, t in zip(dims, target, strict=True)]  # fmt: skip
    source = [1 if _is(d, 1) else g for d, g in zip(dims, goal, strict=True)]
    own = node.shape(0)
    data = node.cast_shape(node.tensor(0), source[rank - len(own) :])
    if len(own) == rank and all(
        node.arithmetic.equal(a, b) for a, b in zip(own, goal, strict=True)
    ):
        return data
    return relax.op.broadcast_to(data, goal)


def _kept(node: OnnxNode, dim: Dim, goal: Any) -> Dim:
    """Return a size that is not expanded; a call fails for a goal other than the size and 1."""
    sizes = (tirx.IntImm("int64", size) if isinstance(size, int) else size for size in (dim, 1))
    node.require(tirx.any(*(tirx.EQ(goal, size) for size in sizes)))
    return dim


@converts("ConstantOfShape")
def constant_of_shape(node: OnnxNode) -> Any:
    """Fill a tensor with a number."""
    value = array(node.attrs["value"]).reshape(()) if "value" in node.attrs else np.float32(0)
    value = np.asarray(value)
    shape = node.sizes(0, "the shape")
    return relax.op.full(shape, relax.const(value, value.dtype.name), value.dtype.name)


@converts("Tile")
def tile(node: OnnxNode) -> Any:
    """Repeat a tensor along its axes."""
    repeats, dims = node.integers(1, "repeats"), node.shape(0)
    if len(repeats) != len(dims):
        node.refuse(f"expected {len(dims)} repeats, got {len(repeats)}")
    data = node.tensor(0)
    if all(_is(r, 1) for r in repeats):
        return data
    split = [size for d in dims for size in (1, d)]
    copies = [size for r, d in zip(repeats, dims, strict=True) for size in (r, d)]
    sizes = [node.arithmetic.multiply(r, d) for r, d in zip(repeats, dims, strict=True)]
    data = node.emit(relax.op.broadcast_to(node.reshape(data, split), copies))
    return node.reshape(data, sizes)


@converts("SpaceToDepth")
def space_to_depth(node: OnnxNode) -> Any:
    """Move blocks of an image to its channels; in mode CRD the channel comes first."""
    if node.text("mode", "DCR") != "CRD":
        return convert(node)
    batch, channels, height, width = node.shape(0)
    block, multiply = int(node.attr("blocksize")), node.arithmetic.multiply
    if any(is_expr(d) or d % block for d in (height, width)):
        node.refuse(f"a size is symbolic or not a multiple of {block}", height, width)
    rows, columns = height // block, width // block
    split = [batch, channels, rows, block, columns, block]
    data = node.reshape(node.tensor(0), split)
    data = node.emit(relax.op.permute_dims(data, [0, 1, 3, 5, 2, 4]))
    return node.reshape(data, [batch, multiply(channels, block * block), rows, columns])


@converts("EyeLike")
def eye_like(node: OnnxNode) -> Any:
    """Return a matrix of zeros with ones on a diagonal."""
    rows, columns = node.shape(0)
    dtype = dtype_name(node.attr("dtype")) if node.attr("dtype") else node.dtype(0)
    return relax.op.eye(rows, columns, int(node.attr("k", 0)), dtype)
