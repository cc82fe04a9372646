"""Exclusive or with a normal form: n-ary, sorted, without pairs that cancel."""

from __future__ import annotations

from .make_terms import raw_call
from .nodes import CallTerm, Int, as_int, integer


def xor(*args: Int) -> Int:
    """Return ``a ^ b ^ ...`` in two's complement; ``x ^ x`` is 0 and literals are folded."""
    literal = 0
    odd: dict[Int, None] = {}
    stack = list(args)
    while stack:
        poly = stack.pop()
        atom = poly.atom
        if poly.const is not None:
            literal ^= poly.const
        elif isinstance(atom, CallTerm) and atom.op == "bitxor":
            stack.extend(as_int(a) for a in atom.args)
        elif poly in odd:
            del odd[poly]
        else:
            odd[poly] = None
    parts = sorted(odd, key=lambda poly: poly.uid)
    if literal or not parts:
        parts.append(integer(literal))
    return parts[0] if len(parts) == 1 else as_int(raw_call("bitxor", tuple(parts), "int"))
