"""What is checked of calls and accesses before they are read as terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .node import lanes_of, script
from .unliftable import Unliftable


def check_index(indices: Sequence[Any]) -> None:
    """Check that only the last coordinate of an access is a vector."""
    if any(lanes_of(str(i.ty.dtype)) != 1 for i in indices[:-1]):
        where = ", ".join(map(script, indices))
        raise Unliftable("only the last coordinate may be a vector", where[:80])


def check_arity(expr: Any, exact: bool) -> None:
    """Check the number of operands, which TVM's builders check and its readers do not.

    Not all operators register the right number: ``fmod`` registers 1.
    """
    count, expected = len(expr.args), int(expr.op.num_inputs)
    if count < expected or (exact and count != expected):
        raise Unliftable(f"a call of {expr.op.name} with {count} operands, expected {expected}")


def check_lanes(expr: Any) -> None:
    """Check that a call with vectors applies to each lane separately."""
    counts = [lanes_of(str(x.ty.dtype)) for x in (expr, *expr.args) if hasattr(x.ty, "dtype")]
    each = expr.op.get_attr("TVectorizable")
    if any(c != 1 for c in counts) and (not each or counts[0] != max(counts)):
        raise Unliftable(f"unsupported call of {expr.op.name} on vectors", script(expr)[:80])
