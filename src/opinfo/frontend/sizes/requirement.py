"""What an operator requires of one number, such as a size of an operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ...analysis.support.ir.tensor_dims import operand_types, text_of_size
from ...analysis.support.origin import node_of

_RELATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "": tirx.EQ, "at least ": tirx.GE, "at most ": tirx.LE, "other than ": tirx.NE,
    "more than ": tirx.GT,
    "a multiple of ": lambda size, factor: tirx.EQ(tirx.floormod(size, factor), int64(0)),
}  # fmt: skip


@dataclass(frozen=True)
class Requirement:
    """A number, and what it is expected to be.

    Attributes:
        what: What the number is, such as ``size 1 of operand 0``.
        got: The number, an expression of int64 or an `int`.
        relation: How it compares with `bound`: ``at least``, and so on; empty for equality.
        bound: What it is compared with.
    """

    what: str
    got: Any
    relation: str
    bound: Any

    @property
    def condition(self) -> Any:
        """The condition as an expression, which is not simplified."""
        return _RELATIONS[self.relation](*map(int64, (self.got, self.bound)))

    def contradiction(self, binding: Any, simplify: Callable[[Any], Any]) -> str:
        """Return a message for a requirement that holds for no sizes.

        Args:
            binding: The binding of the operator.
            simplify: Returns the simplest form of a number.
        """
        call, node = binding.value, node_of(binding)
        lowered = call.op.name == "relax.call_tir"
        name = f"the call of {call.args[0].name_hint}" if lowered else call.op.name
        got, bound = (text_of_size(simplify(int64(x))) for x in (self.got, self.bound))
        return (
            f"{node and f'{node}: '}{name} of {operand_types(call)}: {self.what} is {got}, "
            f"expected {self.relation}{bound}; correct the shapes or attributes"
        )


def equal(what: str, got: Any, bound: Any) -> Requirement:
    """Return the requirement that a number is `bound`."""
    return Requirement(what, got, "", bound)


def at_least(what: str, got: Any, bound: Any) -> Requirement:
    """Return the requirement that a number is not below `bound`."""
    return Requirement(what, got, "at least ", bound)


def at_most(what: str, got: Any, bound: Any) -> Requirement:
    """Return the requirement that a number is not above `bound`."""
    return Requirement(what, got, "at most ", bound)


def multiple(what: str, got: Any, bound: Any) -> Requirement:
    """Return the requirement that a number is a multiple of `bound`, which is at least 1."""
    return Requirement(what, got, "a multiple of ", bound)


def size_of(operand: int, axis: int) -> str:
    """Return what a size is called in messages."""
    return f"size {axis} of operand {operand}"


def int64(x: Any) -> Any:
    """Return a number as an expression of int64; other expressions stay."""
    return tirx.IntImm("int64", int(x)) if isinstance(x, (int, tirx.IntImm)) else x


def number(x: Any) -> int | None:
    """Return a number as an `int`; None for what is symbolic."""
    return int(x) if isinstance(x, (int, tirx.IntImm)) else None
