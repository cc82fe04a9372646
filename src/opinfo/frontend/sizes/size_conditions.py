"""What operators require of symbolic sizes.

TVM infers types as if sizes that it cannot compare were right: it takes `matmul` of (a, n) and
(m, b) although n and m may differ. Its code then reads outside of a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.support.ir.tensor_dims import tensor_dims
from ...analysis.support.tvm_compat import GenericConst, array_of
from .equal_sizes import EQUAL, equal_sizes

Dims = list[Any]
#: Operators whose operands are broadcast against each other.
_BROADCAST = frozenset(
    "add subtract multiply divide floor_divide power mod floor_mod maximum minimum equal not_equal "
    "less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and "
    "bitwise_or bitwise_xor left_shift right_shift where atan2".split()
)

_QUOTIENTS = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def size_conditions(binding: Any) -> Iterator[Any]:
    """Return conditions on sizes that an operator requires; most are constants.

    Args:
        binding: A binding of Relax whose sizes are known or symbolic.

    Raises:
        ValueError: A slice that is said to be inside begins before its axis.
    """
    call = binding.value
    if not isinstance(call, relax.Call) or not isinstance(call.op, tvm.ir.Op):
        return
    name = call.op.name.removeprefix("relax.")
    if name in _BROADCAST:
        yield from _broadcast([d for a in call.args if (d := tensor_dims(a)) is not None])
    elif name in _CONDITIONS:
        yield from _CONDITIONS[name](call)
    if name in EQUAL:
        yield from equal_sizes(call)
    yield from _divisors(binding)


def _divisors(binding: Any) -> Iterator[Any]:
    """A division by zero ends the process, of a size as of a number that is computed of sizes."""
    divisors: list[Any] = []
    for dim in tensor_dims(binding.var) or ():
        tvm_ffi.structural_walk(dim, ((tirx.FloorDiv, tirx.FloorMod), divisors.append))
    yield from (part.b >= 1 for part in divisors)
    numbers: list[Any] = []
    for arg in binding.value.args:
        if isinstance(arg, (relax.ShapeExpr, relax.Tuple)):
            tvm_ffi.structural_walk(arg, (_QUOTIENTS, numbers.append))
    yield from (tirx.NE(part.b, tirx.IntImm(str(part.b.ty), 0)) for part in numbers)


def _broadcast(shapes: list[Dims]) -> Iterator[Any]:
    """Aligned sizes are equal, unless one is 1."""
    for column in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=_ONE):
        sizes = [d for d in column if not _is_one(d)]
        yield from (tirx.EQ(sizes[0], other) for other in sizes[1:])


def _reshape(call: Any) -> Iterator[Any]:
    old, new = tensor_dims(call.args[0]), tensor_dims(call)
    if old is not None and new is not None:
        yield tirx.EQ(_product(old), _product(new))


def _matmul(call: Any) -> Iterator[Any]:
    a, b = map(tensor_dims, call.args)
    if a and b:
        yield tirx.EQ(a[-1], b[max(len(b) - 2, 0)])
        yield from _broadcast([a[:-2], b[:-2]])


def _conv(call: Any) -> Iterator[Any]:
    data, kernel = map(tensor_dims, call.args)
    if data is None or kernel is None:
        return
    channels = data[call.attrs.data_layout.find("C")]
    own = kernel[call.attrs.kernel_layout.find("I")]
    yield tirx.EQ(channels, own if "transpose" in call.op.name else own * call.attrs.groups)
    yield from _not_negative(call)


def _not_negative(call: Any) -> Iterator[Any]:
    """No size is negative: a window is at most one step larger than the padded image."""
    yield from (dim >= 0 for dim in tensor_dims(call) or ())


def _concat(call: Any) -> Iterator[Any]:
    fields = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else ()
    shapes = [d for f in fields if (d := tensor_dims(f)) is not None]
    for other in shapes[1:]:
        for axis, (a, b) in enumerate(zip(shapes[0], other, strict=False)):
            if call.attrs.axis is not None and axis != call.attrs.axis % len(other):
                yield tirx.EQ(a, b)


def _einsum(call: Any) -> Iterator[Any]:
    fields = call.args[0].fields if isinstance(call.args[0], relax.Tuple) else ()
    terms = str(call.attrs.subscripts).replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, Any] = {}
    for term, field in zip(terms, fields, strict=False):
        dims = tensor_dims(field)
        if "..." in term or dims is None:
            continue
        for letter, dim in zip(term, dims, strict=False):
            if not _is_one(dim):  # it is broadcast
                yield tirx.EQ(sizes.setdefault(letter, dim), dim)


def _take(call: Any) -> Iterator[Any]:
    data, indices = tensor_dims(call.args[0]), call.args[1]
    if data is None or not isinstance(indices, GenericConst) or str(call.attrs.mode) != "fast":
        return  # the other modes say what an index outside reads
    values = array_of(indices).numpy()
    axis = call.attrs.axis
    if values.size and (axis is not None or len(data) == 1):
        dim = data[int(axis or 0)]
        yield dim > int(values.max())
        yield dim >= -int(values.min())


def _slice(call: Any) -> Iterator[Any]:
    data = tensor_dims(call.args[0])
    tuples = call.args[1:4]
    known = all(isinstance(part, relax.Tuple) for part in tuples)
    if data is None or not known or not call.attrs.assume_inbound:
        return
    for axis, begin, end in zip(*(part.fields for part in tuples), strict=True):
        if isinstance(begin, tirx.IntImm) and int(begin) < 0:
            raise ValueError(f"relax.strided_slice begins at {int(begin)} of axis {int(axis)}, "
                             f"expected 0 or more where assume_inbound is set")  # fmt: skip
        yield _int64(begin) >= 0
        yield _int64(begin) <= _int64(end)
        yield _int64(end) <= data[int(axis)]


def _gather_elements(call: Any) -> Iterator[Any]:
    """Indices read as many elements of the other axes as they have."""
    data, indices = map(tensor_dims, call.args)
    if data is None or indices is None:
        return
    axis = int(call.attrs.axis) % len(indices)
    yield from (count <= most for k, (most, count) in enumerate(zip(data, indices, strict=True))
                if k != axis)  # fmt: skip


def _topk(call: Any) -> Iterator[Any]:
    data = tensor_dims(call.args[0])
    if data is not None:
        yield data[int(call.attrs.axis)] >= int(call.attrs.k)


_CONDITIONS: Mapping[str, Callable[[Any], Iterator[Any]]] = {
    "reshape": _reshape, "matmul": _matmul, "concat": _concat, "einsum": _einsum, "take": _take,
    "strided_slice": _slice, "topk": _topk, "gather_elements": _gather_elements,
    **{name: _not_negative for name in
       ("broadcast_to", "call_tir", "full", "ones", "tile", "zeros", "nn.pad")},
    **{f"nn.conv{n}d{t}": _conv for n in (1, 2, 3) for t in ("", "_transpose")},
    **{f"nn.{kind}_pool{n}d": _not_negative for n in (1, 2, 3) for kind in ("max", "avg")},
}  # fmt: skip
_ONE = tirx.IntImm("int64", 1)


def _product(dims: Iterable[Any]) -> Any:
    return math.prod(dims, start=tirx.IntImm("int64", 1))


def _is_one(dim: Any) -> bool:
    return isinstance(dim, tirx.IntImm) and int(dim) == 1


def _int64(index: Any) -> Any:
    return tirx.IntImm("int64", index.value) if isinstance(index, tirx.IntImm) else index
