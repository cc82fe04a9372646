"""Dequantisation by group, of values of few bits that are packed into words.

out[y] = (cast(data[.., i // n, ..] >> (bits * (i % n)) & mask) - offset - zero_points[g])
         * scale[.., g, ..]                 with i = y[axis], g = i // group_size
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.runtime import DataType

from ...composites.grouped import DEQUANTIZE
from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ZERO, Int, Load, Term, Var, integer
from ...terms.traversal import substitute
from .._forms.access_functions import literal, pieces
from .._forms.reduced_dimensions import args
from .._forms.sums_of_products import bare, uncast


def _case(*operands: str, bits: int, group: int, axis: int, **more: Any) -> Matches:
    """A call; attributes that are not given have their defaults."""
    attrs = {"bits": bits, "group_size": group, "axis": axis, "size": None, "offset": 0.0,
             "interleave": 1, "packed_axis": None, "zero_points_axis": None}  # fmt: skip
    return Matches(DEQUANTIZE, operands, attrs | more)


MATCHES = [
    *(
        _case(f"uint32[n, {words}]", "float16[n, 4]", bits=bits, group=32, axis=1, offset=offset)
        for bits, words, offset in ((2, 8, 1.0), (4, 16, 7.0), (8, 32, 127.0))
    ),
    _case("uint32[16, n]", "float16[4, n]", bits=4, group=32, axis=0, offset=7.0),
    _case("uint32[5, 28]", "float16[5, 7]", bits=3, group=40, axis=1, offset=3.0, size=256),
    _case("uint32[28, n]", "float16[7, n]", bits=3, group=40, axis=0, offset=3.0, size=256),
    _case("uint32[n, 8]", "float32[n, 2]", bits=3, group=40, axis=1, offset=3.0),
    _case("uint32[2, n, 16]", "float16[2, n, 4]", bits=4, group=32, axis=2, offset=7.0),
    _case("uint32[2, 16, n]", "bfloat16[2, 4, n]", bits=4, group=32, axis=1, offset=7.0),
    _case("uint8[n, 64]", "float16[n, 4]", bits=4, group=32, axis=1, offset=8.0),
    _case("int8[n, 64]", "float16[n, 4]", bits=4, group=32, axis=1, offset=8.0),
    _case("int32[16, n]", "float16[4, n]", bits=4, group=32, axis=0, offset=8.0),
    _case("int32[16, 24]", "float16[4, 24]", "int32[4, 3]", bits=4, group=32, axis=0,
          zero_points_axis=1),
    _case("int8[64, 6]", "float16[1, 6]", bits=4, group=128, axis=0, offset=7.0),
    _case("int8[n, 64]", "float32[n, 2]", bits=8, group=32, axis=1),
    _case("uint8[n, 64]", "float32[n, 2]", "uint8[n, 2]", bits=8, group=32, axis=1),
    _case("uint32[n, 16]", "float16[n, 4]", "float16[n, 4]", bits=4, group=32, axis=1),
    _case("uint32[n, 16]", "float16[n, 4]", "int8[n, 4]", bits=4, group=32, axis=1, offset=1.0),
    _case("uint32[6, 16]", "float16[6, 16]", "uint32[6, 2]", bits=4, group=8, axis=1,
          interleave=2, zero_points_axis=1),
    _case("uint32[16, 24]", "float16[4, 24]", "uint32[4, 3]", bits=4, group=32, axis=0,
          zero_points_axis=1),
    _case("uint32[64, 3]", "float16[2, 24]", "uint32[2, 3]", bits=4, group=32, axis=0,
          interleave=2, packed_axis=1, zero_points_axis=1),
    _case("uint8[64, 3]", "float16[2, 5]", bits=4, group=32, axis=0, packed_axis=1, size=5),
    _case("float8_e4m3fn[n, 64]", "float16[n, 2]", bits=8, group=32, axis=1),
    _case("float8_e5m2[64, n]", "bfloat16[2, n]", bits=8, group=32, axis=0),
    _case("uint32[n, 16]", "float16[n, 128]", bits=4, group=1, axis=1, offset=8.0),
]  # fmt: skip

_HEAD = """
@T.prim_func(s_tir=True)
def main(w: T.Buffer((6, 16), "uint32"), s: T.Buffer((6, 4), "float16"),
         out: T.Buffer((6, 128), "float16")):
    for i, j in T.grid(6, 128):
        out[i, j] = {value}
"""
_SHIFTED = 'w[i, j // 8] >> T.Cast("uint32", j % 8 * 4)'


def _program(value: str = _SHIFTED, offset: str = "- T.float16(7)", scale: str = "j // 32") -> str:
    value = f'(T.Cast("float16", {value}) {offset}) * s[i, {scale}]'
    return _HEAD.format(value=value)


REFUSES = [
    Refuses("nothing is masked", _program()),
    Refuses("three of four bits", _program(f"({_SHIFTED}) & T.uint32(7)")),
    Refuses("a mask with a hole", _program(f"({_SHIFTED}) & T.uint32(11)")),
    Refuses("the mask comes before the shift", _program(_SHIFTED.replace("w[i, j // 8]",
            "(w[i, j // 8] & T.uint32(15))"))),
    Refuses("the first value is in the highest bits",
            _program(f"({_SHIFTED.replace('j % 8 * 4', '28 - j % 8 * 4')}) & T.uint32(15)")),
    Refuses("half words are swapped",
            _program(f"({_SHIFTED.replace('j % 8', '(j % 8 + 4) % 8')}) & T.uint32(15)")),
    Refuses("the word of the next eight values",
            _program(f"({_SHIFTED.replace('j // 8', '(j // 8 + 1) % 16')}) & T.uint32(15)")),
    Refuses("groups start at value 1",
            _program(f"({_SHIFTED}) & T.uint32(15)", scale="(j + 127) % 128 // 32")),
    Refuses("the groups are in reverse",
            _program(f"({_SHIFTED}) & T.uint32(15)", scale="3 - j // 32")),
    *(
        Refuses(reason, _program(value).replace("uint32", "int32").replace("T.uint", "T.int"))
        for reason, value in (
            ("signed words, nothing is masked", _SHIFTED),
            ("signed words, three of four bits", f"({_SHIFTED}) % 8"),
            ("signed words, no power of two", f"({_SHIFTED}) % 15"),
            ("signed words, the mask comes before the shift",
             _SHIFTED.replace("w[i, j // 8]", "(w[i, j // 8] % 16)")),
        )
    ),
    Refuses("the offset is scaled", _HEAD.format(value=(
        f'T.Cast("float16", ({_SHIFTED}) & T.uint32(15)) * s[i, j // 32] - T.float16(7)'))),
    Refuses("the scale divides", _HEAD.format(value=(
        f'(T.Cast("float16", ({_SHIFTED}) & T.uint32(15)) - T.float16(7)) / s[i, j // 32]'))),
    Refuses("the difference wraps around", _HEAD.format(value=(
        f'T.Cast("float16", (({_SHIFTED}) & T.uint32(15)) - T.uint32(7)) * s[i, j // 32]'))),
]  # fmt: skip


@dataclass(frozen=True)
class PackedWeights:
    """``words >> amount & mask``: values of ``bits`` bits, perhaps all of a word."""

    words: Load
    bits: int
    amount: Term | None

    @property
    def per_word(self) -> int:
        return _width(self.words) // self.bits


@recogniser("group_dequantize", precedence=155, ops=(DEQUANTIZE,))
def group_dequantize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the formula from the outside in; index functions give the axis and the group."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or "float" not in definition.out.dtype:
        return Refusal("a dequantisation has one output of floats")
    # values at even and at odd places may be unpacked by different operations
    products = [args(piece.value, "mul") for piece in pieces(definition.body)]
    pairs = [f for f in products if f is not None and len(f) == 2]
    if len(pairs) < len(products):
        return Refusal("the compute is not a product with a scale")
    out = [
        proposal
        for factors in pairs
        for value, factor in (factors, factors[::-1])
        if isinstance(scale := bare(factor), Load)
        for proposal in _proposals(definition, value, scale)
    ]
    return out or Refusal("the compute is not a packed value times the scale of its group")


def _proposals(definition: OutputDefinition, value: Term, scale: Load) -> Iterator[Proposal]:
    value, offset, zero = _without_zeros(value)
    packed = _packed(uncast(value))
    grouped = _stride(definition, scale)
    stride = None if packed is None else _stride(definition, packed.words)
    if packed is None or grouped is None or stride is None:
        return
    axis = stride[0] if grouped[0] is None else grouped[0]
    packed_axis = axis if stride[0] is None else stride[0]
    if axis is None or packed_axis is None:
        return
    attrs: dict[str, Any] = {
        "bits": packed.bits,
        "group_size": grouped[1],
        "axis": axis,
        "size": None,
        "offset": offset,
        "interleave": _interleave(packed, definition.axes[packed_axis]),
        "packed_axis": None if packed_axis == axis else packed_axis,
        "zero_points_axis": None,
    }
    extent = definition.out.shape[packed_axis]
    if packed.words.tensor.shape[packed_axis] * packed.per_word is not extent:
        attrs["size"] = extent
    notes = () if scale.tensor.shape[axis].const != 1 else (
        Undetermined("group_size", "there is one group", low=definition.out.shape[axis]),
    )  # fmt: skip
    operands = [packed.words.tensor.position, scale.tensor.position]
    if zero is None:
        yield Proposal(DEQUANTIZE, tuple(operands), attrs, undetermined=notes)
        return
    operands.append(zero.words.tensor.position)
    for zero_axis in _zero_axes(zero, scale):
        attrs = {**attrs, "zero_points_axis": zero_axis}
        yield Proposal(DEQUANTIZE, tuple(operands), attrs, undetermined=notes)


def _without_zeros(value: Term) -> tuple[Term, float, PackedWeights | None]:
    """``value - offset - zero`` as its parts."""
    offset, zero = 0.0, None
    difference = args(value, "sub")
    if difference is not None and (packed := _packed(uncast(difference[1]))) is not None:
        value, zero = difference[0], packed
        difference = args(value, "sub")
    if difference is not None and (number := literal(difference[1])) is not None:
        value, offset = difference[0], float(number)
    return value, offset, zero


def _packed(term: Term) -> PackedWeights | None:
    """Values in words; a value that fills its word is not masked."""
    masked, amount, bits = args(term, "bitand"), None, None
    if masked is not None and len(masked) == 2:
        for mask, inner in (masked, masked[::-1]):
            number = literal(mask)
            if number is not None and number > 0 and not int(number) & (int(number) + 1):
                term, bits = bare(inner), int(number).bit_length()
    elif isinstance(term, Int) and (remainder := _remainder(term)) is not None:
        term, bits = remainder
    shifted = args(term, "shr")
    if shifted is not None:
        term, amount = bare(shifted[0]), uncast(shifted[1])
    if not isinstance(term, Load):
        return None
    return PackedWeights(term, bits or _width(term), amount)


def _remainder(term: Int) -> tuple[Term, int] | None:
    """``x - 2**bits * (x // 2**bits)``, which a mask of an index integer is, as (x, bits)."""
    parts = {c: mono[0] for mono, c in term.terms if len(mono) == 1}
    if len(parts) != 2 or len(term.terms) != 2 or 1 not in parts:
        return None
    value, count = parts[1], -min(parts)
    quotient = args(next(x for c, x in parts.items() if c != 1), "floordiv")
    if count < 2 or count & (count - 1) or quotient is None:
        return None
    return (value, count.bit_length() - 1) if bare(quotient[0]) is value else None


def _width(load: Load) -> int:
    """The bits of an element."""
    return int(DataType(load.tensor.dtype).bits)


def _stride(definition: OutputDefinition, load: Load) -> tuple[int | None, int] | None:
    """The axis on which several values read one element, and how many; (None, 1) for no axis."""
    if len(load.indices) != len(definition.axes):
        return None
    found: tuple[int | None, int] = (None, 1)
    for axis, (index, place) in enumerate(zip(load.indices, definition.axes, strict=True)):
        if index is place:
            continue
        quotient = args(index, "floordiv")
        count = definition.out.shape[axis] if index is ZERO else None
        if quotient is not None and quotient[0] is place and isinstance(quotient[1], Int):
            count = quotient[1]
        if count is None or count.const is None or found[0] is not None:
            return None
        found = axis, count.const
    return found


def _interleave(packed: PackedWeights, place: Int) -> int:
    """How the values of a word are interleaved, from the position of the second one."""
    if packed.amount is None or not isinstance(place.atom, Var):
        return 1
    second = literal(substitute(packed.amount, {place.atom: integer(1)}))
    position = int(second or 0) // packed.bits
    return packed.per_word // position if position > 1 else 1


def _zero_axes(zero: PackedWeights, scale: Load) -> list[int | None]:
    """The axes along which zero points may be packed."""
    if zero.amount is None and zero.words.tensor.shape == scale.tensor.shape:
        return [None]
    shapes = zip(zero.words.tensor.shape, scale.tensor.shape, strict=False)
    return [k for k, (words, groups) in enumerate(shapes) if words is not groups]
