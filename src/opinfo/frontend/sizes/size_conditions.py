"""What operators require of symbolic sizes.

TVM infers types as if sizes that it cannot compare were right: it takes `matmul` of (a, n) and
(m, b) although n and m may differ. Its code then reads outside of a tensor. It takes some numbers
that contradict an operator, too, such as the 9 largest of 5 elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from ...layout.graph.call_extents import needed_extents
from . import broadcast_sizes, index_sizes, product_sizes, slice_sizes
from .equal_sizes import EQUAL, equal_sizes
from .requirement import Requirement, at_least, equal

Rule = Callable[[Any], Iterator[Requirement]]
#: Operators whose operands are broadcast against each other.
_BROADCAST = frozenset(
    "add subtract multiply divide floor_divide power mod floor_mod maximum minimum equal not_equal "
    "less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor left_shift right_shift where atan2 log_add_exp".split()
)
#: Operators whose results may have negative sizes for some sizes of their operands.
_SHRINKING = frozenset(
    ["broadcast_to", "call_tir", "full", "ones", "tile", "zeros", "nn.pad", "split",
     *(f"nn.{kind}_pool{n}d" for n in (1, 2, 3) for kind in ("max", "avg")),
     *(f"nn.conv{n}d{t}" for n in (1, 2, 3) for t in ("", "_transpose"))]
)  # fmt: skip
_QUOTIENTS = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def size_conditions(binding: Any, mod: Any) -> Iterator[Requirement]:
    """Return what an operator or a PrimFunc requires of sizes; much of it holds for all sizes.

    Args:
        binding: A binding of Relax whose sizes are known or symbolic.
        mod: Its module.
    """
    call = binding.value
    if not isinstance(call, relax.Call) or not isinstance(call.op, tvm.ir.Op):
        return
    name = call.op.name.removeprefix("relax.")
    if name in _RULES:
        yield from _RULES[name](call)
    if name in EQUAL:
        yield from equal_sizes(call)
    if name == "call_tir":
        yield from _of_callee(call, mod)
    yield from _not_negative(binding.var.ty, name in _SHRINKING)
    yield from _divisors(binding)


def _not_negative(ty: Any, shrinking: bool) -> Iterator[Requirement]:
    """No size is negative: a window is at most one step larger than the padded image."""
    for part in ty.fields if isinstance(ty, relax.TupleType) else (ty,):
        shape = getattr(part, "shape", None)
        for axis, dim in enumerate(shape.values if isinstance(shape, relax.ShapeExpr) else ()):
            if shrinking or isinstance(dim, tirx.IntImm):
                yield at_least(f"size {axis} of the result", dim, 0)


def _divisors(binding: Any) -> Iterator[Requirement]:
    """A division by zero ends the process, of a size as of a number that is computed of sizes."""
    divisors: list[Any] = []
    for dim in tensor_dims(binding.var) or ():
        tvm_ffi.structural_walk(dim, ((tirx.FloorDiv, tirx.FloorMod), divisors.append))
    yield from (at_least("a divisor", part.b, 1) for part in divisors if not _is_not_zero(part.b))
    numbers: list[Any] = []
    for arg in binding.value.args:
        if isinstance(arg, (relax.ShapeExpr, relax.Tuple)):
            tvm_ffi.structural_walk(arg, (_QUOTIENTS, numbers.append))
    for part in numbers:
        zero = tirx.IntImm(str(part.b.ty), 0)
        yield Requirement("a divisor", part.b, "other than ", zero)


def _of_callee(call: Any, mod: Any) -> Iterator[Requirement]:
    """Extents of a lowered call are what its PrimFunc needs; `check_module` compares numbers."""
    callee = mod.functions.get(call.args[0])
    if not isinstance(callee, tirx.PrimFunc):
        return
    for place, value, expected, _ in needed_extents(callee, call):
        if not (isinstance(value, tirx.IntImm) and isinstance(expected, tirx.IntImm)):
            yield equal(place, value, expected)


def _is_not_zero(divisor: Any) -> bool:
    return isinstance(divisor, tirx.IntImm) and int(divisor) != 0


def _reshape(call: Any) -> Iterator[Requirement]:
    old, new = tensor_dims(call.args[0]), tensor_dims(call)
    if old is not None and new is not None:
        one = tirx.IntImm("int64", 1)
        yield equal("the number of elements", *(math.prod(d, start=one) for d in (old, new)))


_RULES: Mapping[str, Rule] = {
    **{name: broadcast_sizes.of_operands for name in _BROADCAST},
    **{f"nn.conv{n}d{t}": product_sizes.of_convolution
       for n in (1, 2, 3) for t in ("", "_transpose")},
    "reshape": _reshape, "concat": broadcast_sizes.of_joined,
    "matmul": product_sizes.of_matmul, "einsum": product_sizes.of_einsum,
    "nn.attention": product_sizes.of_attention,
    "nn.attention_bias": product_sizes.of_attention,
    "nn.group_norm": product_sizes.of_groups,
    "take": index_sizes.of_take, "strided_slice": slice_sizes.of_slice,
    "topk": index_sizes.of_topk, "gather_elements": index_sizes.of_gather_elements,
    "gather_nd": index_sizes.of_gather_nd, "index_put": index_sizes.of_index_put,
    "scatter_elements": index_sizes.of_scatter_elements,
    "split": slice_sizes.of_split, "slice_scatter": slice_sizes.of_slice_scatter,
    "vision.multibox_transform_loc": index_sizes.of_anchors,
}  # fmt: skip
