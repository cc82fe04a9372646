"""Dequantisation by group, of values of few bits that are packed into words.

    out[y] = (cast(data[.., i // n, ..] >> (bits * (i % n)) & mask) - offset - zero_points[g])
             * scale[.., g, ..]                 with i = y[axis], g = i // group_size
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm.runtime import DataType

from ..composites.grouped import DEQUANTIZE
from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..proposal.proposal import Proposal
from ..proposal.undetermined import Undetermined
from ..results.op_info import Refusal
from ..terms.term import ZERO, CallTerm, Const, Int, Load, Term, Var, integer
from ..terms.traversal import substitute
from . import Matches, Refuses, recogniser
from ._contraction import bare, uncast
from ._moves import literal
from ._sweep import args


@dataclass(frozen=True)
class Packed:
    """``words >> amount & mask``: values of ``bits`` bits, perhaps all of a word."""

    words: Load
    bits: int
    amount: Term | None

    @property
    def per_word(self) -> int:
        return DataType(self.words.tensor.dtype).bits // self.bits


@recogniser("group_dequantize", precedence=155, ops=(DEQUANTIZE,))
def group_dequantize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match the formula from the outside in; index functions give the axis and the group."""
    (definition,) = expression.outputs[:1]
    if len(expression.outputs) != 1 or "float" not in definition.out.dtype:
        return Refusal("a dequantisation has one output of floats")
    factors = args(definition.body, "mul")
    if factors is None or len(factors) != 2:
        return Refusal("the compute is not a product with a scale")
    out = [
        proposal
        for value, factor in (factors, factors[::-1])
        if isinstance(scale := bare(factor), Load)
        for proposal in _proposals(definition, value, scale)
    ]
    return out or Refusal("the compute is not a packed value times the scale of its group")


def _proposals(definition: OutputDefinition, value: Term, scale: Load) -> Iterator[Proposal]:
    value, offset, zero = _without_zeros(value)
    packed = _packed(uncast(value))
    grouped = _stride(definition, scale)
    if packed is None or grouped is None or len(scale.indices) != len(packed.words.indices):
        return
    axis, group_size = grouped
    if axis is None:
        axis = (_stride(definition, packed.words) or (None, 1))[0]
    if axis is None:
        return
    attrs = {"bits": packed.bits, "group_size": group_size, "axis": axis, "size": None,
             "offset": offset, "interleave": _interleave(packed, definition.axes[axis]),
             "zero_points_axis": None}  # fmt: skip
    extent = definition.out.shape[axis]
    if packed.words.tensor.shape[axis] * packed.per_word is not extent:
        attrs["size"] = extent
    notes = () if scale.tensor.shape[axis].const != 1 else (
        Undetermined("group_size", "there is one group", low=extent),
    )  # fmt: skip
    operands = [packed.words.tensor.position, scale.tensor.position]
    if zero is None:
        yield Proposal(DEQUANTIZE, tuple(operands), attrs, undetermined=notes)
        return
    operands.append(zero.words.tensor.position)
    for zero_axis in _zero_axes(zero, packed, scale):
        attrs = {**attrs, "zero_points_axis": zero_axis}
        yield Proposal(DEQUANTIZE, tuple(operands), attrs, undetermined=notes)


def _without_zeros(value: Term) -> tuple[Term, float, Packed | None]:
    """``value - offset - zero`` as its parts."""
    offset, zero = 0.0, None
    difference = args(value, "sub")
    if difference is not None and (packed := _packed(uncast(difference[1]))) is not None:
        value, zero = difference[0], packed
        difference = args(value, "sub")
    if difference is not None and (number := literal(difference[1])) is not None:
        value, offset = difference[0], float(number)
    return value, offset, zero


def _packed(term: Term) -> Packed | None:
    """Values in words; a value that fills its word is not masked."""
    masked, amount, bits = args(term, "bitand"), None, None
    if masked is not None and len(masked) == 2:
        for mask, inner in (masked, masked[::-1]):
            number = literal(mask)
            if number is not None and number > 0 and not int(number) & (int(number) + 1):
                term, bits = bare(inner), int(number).bit_length()
    shifted = args(term, "shr")
    if shifted is not None:
        term, amount = bare(shifted[0]), uncast(shifted[1])
    if not isinstance(term, Load):
        return None
    return Packed(term, bits or DataType(term.tensor.dtype).bits, amount)


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


def _interleave(packed: Packed, place: Int) -> int:
    """How the values of a word are interleaved, from the position of the second one."""
    if packed.amount is None or not isinstance(place.atom, Var):
        return 1
    second = literal(substitute(packed.amount, {place.atom: integer(1)}))
    position = int(second or 0) // packed.bits
    return packed.per_word // position if position > 1 else 1


def _zero_axes(zero: Packed, packed: Packed, scale: Load) -> list[int | None]:
    """The axes along which zero points may be packed."""
    if zero.amount is None and zero.words.tensor.shape == scale.tensor.shape:
        return [None]
    shapes = zip(zero.words.tensor.shape, scale.tensor.shape, strict=False)
    return [k for k, (words, groups) in enumerate(shapes) if words is not groups]
