"""The names of operators, and of what they are called with."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

import tvm

from ...analysis.recognise import recognisers
from .unary_functions import HARD_SWISH


@cache
def arguments(op: str) -> tuple[str, ...]:
    """The names of an operator's arguments; none of what is no operator of TVM."""
    if op not in operators():
        return ()
    return tuple(str(a.name) for a in tvm.ir.Op.get(op).arguments)


@cache
def operators() -> frozenset[str]:
    """All operators that TVM has."""
    return frozenset(map(str, tvm.ir.Op.list_op_names()))


def check_names(names: Iterable[str], what: str) -> None:
    """Raises ``ValueError`` for a name that no operator has, with those that are like it."""
    unknown = [n for n in names if n not in operators() and n != HARD_SWISH]
    if not unknown:
        return
    answered = {op for r in recognisers() for op in r.ops}
    for name in unknown:
        if name in answered:
            continue
        near = _near(name, {*answered, *(n for n in operators() if n.startswith("relax."))})
        mean = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"{what}: there is no operator {name!r}{mean}")


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Those that go on as the name does, or are called so elsewhere, then those spelt like it."""
    last = name.rpartition(".")[2]
    same = [n for n in sorted(known) if last and n.rpartition(".")[2].startswith(last)]
    return list(dict.fromkeys([*same, *get_close_matches(name, sorted(known), 3)]))[:3]
