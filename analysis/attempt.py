"""Asking a recogniser: what fails in one costs its own proposals and nothing else.

A recogniser may raise, return anything, or propose an invalid call. Its failure is a refusal that
names it, the error and the line, and a :class:`RecogniserWarning`, once for each reason.
"""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import tvm_ffi

from .lifting.comprehension import Lifted
from .op_info import Constant, Proposal, Refusal
from .real import TooLarge
from .registry import Recogniser, generation
from .terms.term import Int

T = TypeVar("T")
#: Proposals of one recogniser: each costs of the budget that all have together.
MOST = 100

#: What attributes are made of; TVM's objects are such as index maps.
PLAIN = (bool, int, float, str, Int, Constant, tvm_ffi.Object, type(None))


class RecogniserWarning(UserWarning):
    """A recogniser failed; the answer is that of the others."""


@dataclass(frozen=True, repr=False)
class Failure(Refusal):
    """Why a recogniser, or a proposal of one, is left out."""


class Invalid(Exception):
    """What a recogniser returned is not what it is to return."""


def proposals(r: Recogniser, lifted: Lifted) -> Sequence[Proposal] | Refusal:
    """What a recogniser believes, or why it has none.

    One from outside gets a copy, as all are asked about the same object, and its proposals are
    checked.
    """
    try:
        return r.run(lifted) if r.built_in else _checked(r.run(replace(lifted)), lifted)
    except (Exception, SystemExit) as e:
        return _refused(r, e)


def attempt(r: Recogniser, act: Callable[[], T], about: Proposal | None = None) -> T | Refusal:
    """What ``act`` returns; what it raises is a refusal in the recogniser's name."""
    try:
        return act()
    except (Exception, SystemExit) as e:
        return _refused(r, e, about)


def _refused(r: Recogniser, e: BaseException, about: Proposal | None = None) -> Refusal:
    if isinstance(e, TooLarge):
        return Refusal(str(e), r.name)
    if isinstance(e, RecursionError) and r.built_in:
        return Refusal("the compute is nested too deeply", r.name)
    return _failed(r, e, about)


def _failed(r: Recogniser, e: BaseException, about: Proposal | None) -> Failure:
    error = str(e) if isinstance(e, Invalid) else f"{type(e).__name__}: {_text(e)}"
    first = " ".join(error.split())[:200]
    place = _place(r.run, e)
    told = "" if about is None else f"its {about.name} cannot be checked: "
    why = f"recogniser {r.name!r} failed: {told}{first} ({place})"
    _warn(why, (r.name, type(e), place))
    return Failure(why, r.name)


def _text(e: BaseException) -> str:
    try:
        return str(e)
    except Exception as another:
        return f"no text, its __str__ raised {type(another).__name__}"


def _checked(found: Any, lifted: Lifted) -> Sequence[Proposal] | Refusal:
    if isinstance(found, Refusal):
        return found
    if not isinstance(found, Sequence) or isinstance(found, str):
        expected = "expected a sequence of Proposal, or a Refusal"
        raise Invalid(f"it returned {_kind(found)}, {expected}")
    if len(found) > MOST:
        raise Invalid(f"it proposed {len(found)} operators, expected at most {MOST}")
    return [_proposal(p, lifted) for p in found]


def _proposal(p: Any, lifted: Lifted) -> Proposal:
    if not isinstance(p, Proposal):
        raise Invalid(f"it proposed {_kind(p)}, expected a Proposal")
    if not isinstance(p.name, str):
        raise Invalid(f"it proposed the operator {p.name!r}, expected its name")
    if not isinstance(p.operands, (tuple, list)):
        raise Invalid(f"it proposed {p.name} of {_kind(p.operands)}, expected a tuple of operands")
    count = len(lifted.params)
    for o in p.operands:
        if not isinstance(o, Constant) and (type(o) is not int or not 0 <= o < count):
            raise Invalid(f"it proposed {p.name} with the operand {o!r}, expected a Constant or "
                          f"the index of a parameter, 0 to {count - 1}")  # fmt: skip
    _check_keys(p, "attrs", p.attrs, str)
    _check_keys(p, "layouts", p.layouts, int)
    for key, value in p.attrs.items():
        wrong = _not_plain(value)
        if wrong is not None:
            raise Invalid(f"it proposed {p.name} with the attribute {key} of type "
                          f"{type(wrong).__name__}, expected a plain value")  # fmt: skip
    return replace(p, operands=tuple(p.operands))


def _check_keys(p: Proposal, name: str, found: Any, key: type) -> None:
    if not isinstance(found, Mapping) or not all(isinstance(k, key) for k in found):
        raise Invalid(f"it proposed {p.name} with {name} {found!r:.80}, expected a mapping "
                      f"with keys of type {key.__name__}")  # fmt: skip


def _not_plain(value: Any) -> Any:
    """The first part of an attribute's value that is of no known type; None if there is none."""
    if isinstance(value, (tuple, list)):
        return next((w for v in value if (w := _not_plain(v)) is not None), None)
    return None if isinstance(value, PLAIN) else value


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _place(run: Any, e: BaseException) -> str:
    """The innermost line of the recogniser's file that the error came through.

    An error that did not come through it: where the recogniser is, and where the error is from.
    """
    code = getattr(inspect.unwrap(run), "__code__", None)
    here = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(run)
    frames = traceback.extract_tb(e.__traceback__)
    own = [f for f in frames if code is not None and f.filename == code.co_filename]
    if own:
        return f"{own[-1].filename}:{own[-1].lineno}"
    if isinstance(e, Invalid):
        return here
    return f"{here}; raised at {frames[-1].filename}:{frames[-1].lineno}"


_warned: tuple[int, set[Any]] = (-1, set())


def _warn(text: str, reason: Any) -> None:
    """Once for a reason, and again after a registration: it may have been mended."""
    global _warned
    if _warned[0] != generation():
        _warned = (generation(), set())
    if reason not in _warned[1]:
        _warned[1].add(reason)
        warnings.warn(f"{text}; the answers are those of the others", RecogniserWarning,
                      stacklevel=2)  # fmt: skip
