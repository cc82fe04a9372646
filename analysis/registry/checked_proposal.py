"""Check and copy, field by field, what a recogniser from outside returns.

Readers of the copies meet plain values only: whatever the recogniser's own objects do when they are
iterated, compared or printed happens here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.attribute_values import to_prim
from ..proposal.call_op import NotBuilt
from ..proposal.proposal import Constant, Proposal
from ..proposal.undetermined import Undetermined
from ..results.op_info import Refusal
from ..terms.term import Int, TensorVar, Var
from .registry import Recogniser, not_an_operator

#: The most proposals of one recogniser: each costs part of the budget that all share.
MOST = 100

#: Leaves of attributes that are not copied; TVM's objects are values such as index maps.
_PLAIN = (bool, Int, tvm_ffi.Object, type(None))
#: How other leaves are copied: an instance of a subclass may do anything when it is compared.
_COPIES: dict[type, Callable[[Any], Any]] = {
    int: int.__int__, float: float.__float__, str: str.__str__
}  # fmt: skip


class Invalid(Exception):
    """A recogniser returned something that is not a valid proposal."""


def check_proposals(
    recogniser: Recogniser, answer: Any, lifted: TensorExpression
) -> Sequence[Proposal] | Refusal:
    """Return the proposals or the refusal; raise `Invalid`, or what the objects raise."""
    if isinstance(answer, Refusal):
        return Refusal(str(answer.reason), str(answer.where))
    if not isinstance(answer, Sequence) or isinstance(answer, str):
        expected = "expected a sequence of Proposal, or a Refusal"
        raise Invalid(f"it returned {_kind(answer)}, {expected}")
    if len(answer) > MOST:
        raise Invalid(f"it proposed {len(answer)} operators, expected at most {MOST}")
    return [_proposal(recogniser, p, lifted) for p in islice(answer, MOST)]


def _proposal(recogniser: Recogniser, proposal: Any, lifted: TensorExpression) -> Proposal:
    if not isinstance(proposal, Proposal):
        raise Invalid(f"it proposed {_kind(proposal)}, expected a Proposal")
    name = _operator(recogniser, proposal.name)
    return Proposal(
        name,
        _operands(name, proposal.operands, lifted),
        _attributes(name, proposal.attrs),
        _layouts(name, proposal.layouts, lifted),
        _undetermined(name, proposal.undetermined, lifted),
    )


def _operator(recogniser: Recogniser, name: Any) -> str:
    if type(name) is not str:
        raise Invalid(f"it proposed the operator {name!r}, expected its name")
    if recogniser.ops and name not in recogniser.ops:
        raise Invalid(f"it proposed {name!r}, expected one of its ops: {', '.join(recogniser.ops)}")
    why = not_an_operator(name)
    if why:
        raise Invalid(f"it proposed {name!r}: {why}")
    return name


def _operands(name: str, operands: Any, lifted: TensorExpression) -> tuple[int | Constant, ...]:
    if not isinstance(operands, (tuple, list)):
        raise Invalid(f"it proposed {name} of {_kind(operands)}, expected a tuple of operands")
    count = len(lifted.params)
    for operand in operands:
        if type(operand) is Constant:
            _constant(name, operand)
        elif type(operand) is not int or not 0 <= operand < count:
            raise Invalid(f"it proposed {name} with the operand {operand!r}, expected a Constant "
                          f"or the index of a parameter, 0 to {count - 1}")  # fmt: skip
    return tuple(operands)


def _constant(name: str, constant: Constant) -> None:
    """Check that a literal operand is a number that its dtype can hold."""
    scalar = (
        isinstance(constant.value, (bool, int, float, np.generic)) and np.ndim(constant.value) == 0
    )
    if not scalar or type(constant.dtype) is not str or not _holds(constant.dtype, constant.value):
        raise Invalid(f"it proposed {name} with {constant!r:.80}, expected a number of its dtype")


def _holds(dtype: str, value: Any) -> bool:
    from ..terms.evaluate import numpy_dtype

    try:
        kind = np.dtype(numpy_dtype(dtype))
    except (TypeError, ValueError, AttributeError):
        return False
    if kind.kind not in "iub":
        return True
    low, high = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
    return math.isfinite(value) and value == int(value) and low <= value <= high


def _attributes(name: str, attrs: Any) -> dict[str, Any]:
    return {k: _plain(name, k, v) for k, v in _mapping(name, "attrs", attrs, str).items()}


def _plain(name: str, key: str, value: Any) -> Any:
    """A copy of an attribute's value, made of plain values."""
    if isinstance(value, _PLAIN):
        return value
    if type(value) is Constant:
        _constant(name, value)
        return value
    if isinstance(value, (tuple, list)):
        parts = (_plain(name, key, v) for v in value)
        return list(parts) if isinstance(value, list) else tuple(parts)
    copy = next((c for kind, c in _COPIES.items() if isinstance(value, kind)), None)
    if copy is None:
        raise Invalid(f"it proposed {name} with the attribute {key} of type "
                      f"{type(value).__name__}, expected a plain value")  # fmt: skip
    return copy(value)


def _mapping(name: str, what: str, value: Any, key: type) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping) or not all(type(k) is key for k in value):
        raise Invalid(f"it proposed {name} with {what} {value!r:.80}, expected a mapping "
                      f"with keys of type {key.__name__}")  # fmt: skip
    return value


def _layouts(name: str, layouts: Any, lifted: TensorExpression) -> dict[int, str]:
    for at, text in _mapping(name, "layouts", layouts, int).items():
        buffer = lifted.params[at] if 0 <= at < len(lifted.params) else None
        if not isinstance(buffer, TensorVar):
            raise Invalid(f"it proposed {name} with a layout of parameter {at}, expected the index "
                          "of a buffer")  # fmt: skip
        if type(text) is not str or (text and not _parses(text, len(buffer.shape))):
            raise Invalid(f"it proposed {name} with the layout {text!r} of parameter {at}, "
                          f"expected one of {len(buffer.shape)} axes that TVM parses")  # fmt: skip
    return dict(layouts)


def _parses(text: str, rank: int) -> bool:
    """Whether TVM parses a layout string, with an axis for each letter, and no axis twice."""
    from tvm import s_tir

    letters = [c for c in text if c.isalpha()]
    try:
        return len(s_tir.slayout(text)) == len(letters) == len(set(letters)) == rank
    except (RuntimeError, TypeError, ValueError):
        return False


def _undetermined(name: str, notes: Any, lifted: TensorExpression) -> tuple[Undetermined, ...]:
    if not isinstance(notes, (tuple, list)) or not all(map(_is_note, notes)):
        raise Invalid(f"it proposed {name} with undetermined {notes!r:.80}, expected a tuple of "
                      "Undetermined")  # fmt: skip
    return tuple(_note(name, u, lifted) for u in notes)


def _note(name: str, undetermined: Undetermined, lifted: TensorExpression) -> Undetermined:
    """A copy with checked bounds: no call is built from them, so nothing else would check them."""
    low, high, values = (
        _plain(name, undetermined.attribute, value)
        for value in (undetermined.low, undetermined.high, undetermined.values)
    )
    dimensions = {e for p in lifted.params for e in _dimensions(p)}
    sizes = {v: tirx.Var(v.name, "int64") for v in dimensions if isinstance(v, Var)}
    try:
        to_prim((low, high, values), sizes)
    except NotBuilt as error:
        raise Invalid(
            f"it proposed {name} with an undetermined {undetermined.attribute}: {error}"
        ) from None
    return replace(undetermined, low=low, high=high, values=values)


def _dimensions(param: TensorVar | Var) -> tuple[Any, ...]:
    return (param,) if isinstance(param, Var) else tuple(e.atom for e in param.shape)


def _is_note(note: Any) -> bool:
    if type(note) is not Undetermined or type(note.values) is not tuple:
        return False
    partner = note.partner is None or (
        type(note.partner) is tuple and tuple(map(type, note.partner)) == (str, int)
    )
    position = note.position is None or type(note.position) is int
    return type(note.attribute) is type(note.reason) is str and position and partner


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
