"""Call a recogniser; a failure costs its own proposals and nothing else.

A recogniser may raise, return anything, or propose an invalid call. Its failure is a refusal that
names it, the error and the line, and a `RecogniserWarning`, once for each reason.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.proposal import Proposal
from ..real import TooLarge
from ..results.op_info import Refusal
from ..support.warn import warn
from ..terms.term.work_budget import Exhausted
from .checked_proposal import Invalid, check_proposals
from .registry import Recogniser, RecogniserWarning, generation
from .shared_state import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class RecogniserFailure(Refusal):
    """The reason why a recogniser, or one of its proposals, is left out."""


def proposals(recogniser: Recogniser, lifted: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Return the proposals of a recogniser, or why it has none.

    A recogniser from outside gets a copy, because all of them share one expression, and its
    proposals are checked.
    """
    try:
        return recogniser.run(lifted) if recogniser.built_in else _outside(recogniser, lifted)
    except (KeyboardInterrupt, Exhausted):
        raise
    except BaseException as error:
        return _refused(recogniser, error)


def _outside(recogniser: Recogniser, lifted: TensorExpression) -> Sequence[Proposal] | Refusal:
    shared = Snapshot(lifted)
    try:
        copy = replace(lifted, outputs=tuple(map(replace, lifted.outputs)))
        checked_proposals = check_proposals(recogniser, recogniser.run(copy), lifted)
    finally:
        changed = shared.restore()
    if changed:
        raise Invalid("it changed the tensor expression, which all recognisers share")
    return checked_proposals


def attempt(
    recogniser: Recogniser, act: Callable[[], T], about: Proposal | None = None
) -> T | Refusal:
    """Return the result of `act`; an exception becomes a refusal in the recogniser's name."""
    try:
        return act()
    except (KeyboardInterrupt, Exhausted):
        raise
    except BaseException as error:
        return _refused(recogniser, error, about)


def _refused(
    recogniser: Recogniser, error: BaseException, about: Proposal | None = None
) -> Refusal:
    if recogniser.built_in and not isinstance(error, Exception):
        raise error  # a signal's handler, or another thread: no line of this package raises it
    if isinstance(error, TooLarge):
        return Refusal(str(error), recogniser.name)
    if isinstance(error, RecursionError) and recogniser.built_in:
        return Refusal("the compute is nested too deeply", recogniser.name)
    return _failed(recogniser, error, about)


def _failed(
    recogniser: Recogniser, error: BaseException, about: Proposal | None
) -> RecogniserFailure:
    message = (
        str(error) if isinstance(error, Invalid) else f"{type(error).__name__}: {_text(error)}"
    )
    summary = " ".join(message.split())[:200]
    place = _place(recogniser, error)
    subject = "" if about is None else f"its {about.name} cannot be checked: "
    why = f"recogniser {recogniser.name!r} failed: {subject}{summary} ({place})"
    _warn(why, recogniser, (recogniser.name, type(error), place))
    return RecogniserFailure(why, recogniser.name)


def _text(error: BaseException) -> str:
    """The text of an error, even if its ``__str__`` fails."""
    try:
        return str(error)
    except (KeyboardInterrupt, Exhausted):
        raise
    except BaseException as another:
        return f"no text, its __str__ raised {type(another).__name__}"


def _place(recogniser: Recogniser, error: BaseException) -> str:
    """The line where a recogniser failed; its name if its function cannot be described."""
    try:
        return _line(recogniser.run, error)
    except (KeyboardInterrupt, Exhausted):
        raise
    except BaseException:
        return recogniser.name


def _line(run: Any, error: BaseException) -> str:
    """The innermost line of the recogniser's file in the traceback.

    If the error did not pass through that file: the recogniser's first line, and the error's.
    """
    code = getattr(inspect.unwrap(run), "__code__", None)
    definition = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(run)
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if code is not None and f.filename == code.co_filename]
    if inside:
        return f"{inside[-1].filename}:{inside[-1].lineno}"
    if isinstance(error, Invalid):
        return definition
    return f"{definition}; raised at {frames[-1].filename}:{frames[-1].lineno}"


_warned: tuple[int, set[Any]] = (-1, set())


def _warn(text: str, recogniser: Recogniser, reason: Any) -> None:
    """Warn once for each reason, and again after a registration, which may have fixed the cause.

    Where warnings are errors, one about a recogniser of this package is raised, because that is a
    fault of opinfo. One about a plug-in costs no answer.
    """
    global _warned
    if _warned[0] != generation():
        _warned = (generation(), set())
    if reason in _warned[1]:
        return
    try:
        warn(f"{text}; the other recognisers answer without it", RecogniserWarning)
    except Exception:
        if recogniser.built_in:
            raise
    _warned[1].add(reason)
