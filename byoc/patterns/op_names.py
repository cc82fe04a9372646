"""The names of operators and of their arguments."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache

import tvm

from ...analysis.recognise import recognisers
from .unary_functions import HARD_SWISH


@cache
def arguments(op: str) -> tuple[str, ...]:
    """The argument names of an operator; empty if TVM does not have it."""
    if op not in operators():
        return ()
    return tuple(str(a.name) for a in tvm.ir.Op.get(op).arguments)


@cache
def operators() -> frozenset[str]:
    """The names of all operators of TVM."""
    return frozenset(map(str, tvm.ir.Op.list_op_names()))


def check_names(names: Iterable[str], what: str) -> None:
    """Raises ``ValueError`` for an unknown operator name, with similar names."""
    unknown = [n for n in names if n not in operators() and n != HARD_SWISH]
    if unknown and len(tvm.ir.Op.list_op_names()) != len(operators()):
        operators.cache_clear()  # packages register operators at any time, and none is removed
        unknown = [n for n in unknown if n not in operators()]
    if not unknown:
        return
    answered = {op for r in recognisers() for op in r.ops}
    for name in unknown:
        if name in answered:
            continue
        similar = _similar(name, {*answered, *(n for n in operators() if n.startswith("relax."))})
        hint = f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
        raise ValueError(f"{what}: unknown operator {name!r}{hint}")


def _similar(name: str, names: Iterable[str]) -> list[str]:
    """Names with the same last part, then those with a similar spelling."""
    last = name.rpartition(".")[2]
    same = [n for n in sorted(names) if last and n.rpartition(".")[2].startswith(last)]
    return list(dict.fromkeys([*same, *get_close_matches(name, sorted(names), 3)]))[:3]
