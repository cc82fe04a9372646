"""Recognisers: one file a family, found by itself.

A recogniser is a pure function from :class:`..lifting.comprehension.Lifted` to proposals or a
:class:`Refusal`. It may guess: nothing it proposes is handed out before :mod:`..certify` has
proved it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ..lifting.comprehension import Lifted
from ..op_info import Proposal, Refusal

Recognise = Callable[[Lifted], Sequence[Proposal] | Refusal]


@dataclass(frozen=True)
class Recogniser:
    """A registered recogniser. Lower ``precedence`` is asked first; it is unique.

    One that is ``rounded`` is only asked for what is an operator up to rounding, see :mod:`..real`.
    """

    name: str
    precedence: int
    ops: tuple[str, ...]
    run: Recognise
    rounded: bool = False


@dataclass(frozen=True)
class Matches:
    """A call that must be recognised: ``op(*operands, **attrs)`` on tensors of these types.

    ``operands`` are ``"float32[1, 3, n, n]"`` texts; a repeated letter is one symbolic size, and
    such a letter among ``attrs`` is that size. ``"int8(3)"`` is a constant; scalar operands can be
    attributes too, ``{"x2": 2.0}``.
    ``expect`` are the attributes that must come back, by default ``attrs`` themselves; ``name`` is
    the canonical op that comes back where one compute is several ops, by default ``op``. ``places``
    are the operands' places among the PrimFunc's parameters where those are in another order.
    """

    op: str
    operands: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, Any] | None = None
    name: str | None = None
    places: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Refuses:
    """A TVMScript PrimFunc that must not be recognised as one of the file's ops, and why."""

    why: str
    script: str


_REGISTERED: dict[str, Recogniser] = {}


def recogniser(
    name: str, *, precedence: int, ops: Sequence[str], rounded: bool = False
) -> Callable[[Recognise], Recognise]:
    """Register a recogniser; a name or precedence taken already raises ``ValueError``."""

    def register(run: Recognise) -> Recognise:
        for r in _REGISTERED.values():
            if r.name == name or r.precedence == precedence:
                raise ValueError(
                    f"recogniser {name!r} at precedence {precedence}: taken by {r.name!r} "
                    f"at {r.precedence}"
                )
        _REGISTERED[name] = Recogniser(name, precedence, tuple(ops), run, rounded)
        return run

    return register


@cache
def modules() -> tuple[Any, ...]:
    """The recogniser modules, in alphabetical order."""
    return tuple(
        importlib.import_module(f"{__name__}.{m.name}")
        for m in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name)
        if not m.name.startswith("_")
    )


@cache
def recognisers() -> tuple[Recogniser, ...]:
    """All recognisers, by precedence."""
    modules()
    return tuple(sorted(_REGISTERED.values(), key=lambda r: r.precedence))
