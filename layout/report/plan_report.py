"""The report of a plan: the layout of each value, each remaining conversion, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...analysis.support.wording import plural
from ..model.buffer_bytes import SYMBOLIC
from ..model.layout import Layout


@dataclass(frozen=True)
class Conversions:
    """The layout conversions of activations in a module.

    Attributes:
        number: How many there are.
        bytes: How many bytes they write.
    """

    number: int = 0
    bytes: int = 0

    def __repr__(self) -> str:
        return f"{self.number} ({size(self.bytes)})" if self.number else "none"


@dataclass(frozen=True)
class ValueChoice:
    """The layout of a value, and why."""

    name: str
    shape: tuple[Any, ...]
    dtype: str
    layout: Layout
    why: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "shape": [e if isinstance(e, int) else str(e) for e in self.shape],
            "dtype": self.dtype, "layout": self.layout.spell(), "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Conversion:
    """A remaining conversion: its value, layouts, bytes, readers, and the reason."""

    value: str
    source: Layout
    target: Layout
    bytes: int
    why: str
    consumers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "value": self.value, "source": self.source.spell(), "target": self.target.spell(),
            "bytes": self.bytes, "why": self.why, "consumers": list(self.consumers),
        }  # fmt: skip


@dataclass(frozen=True)
class OpChoice:
    """The alternative of an op.

    Attributes:
        name: Its result.
        op: Its PrimFunc.
        implementation: The layouts of its results.
        why: The reason.
        met: Whether it has the layouts that were requested for it, if any.
        replaced: Whether a given implementation computes it.
        note: Why a given implementation of this operator does not.
    """

    name: str
    op: str
    implementation: str
    why: str
    met: bool = True
    replaced: bool = False
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name, "op": self.op, "implementation": self.implementation,
            "why": self.why, "met": self.met,
        }  # fmt: skip


@dataclass(frozen=True)
class PlanReport:
    """The layouts and conversions of a plan, with the reasons.

    Attributes:
        values: The layout of each value, with the reason.
        conversions: The conversions that the plan needs, with the reasons.
        ops: The alternative chosen for each operator.
        status: The solver's status: ``optimal``, or the limit that it reached.
        objective: The cost of the plan.
        bound: A lower bound on the cost of any plan.
        counting: A function that counts the conversions of the unplanned module.
        left: A function that counts the conversions of the planned module.
    """

    values: tuple[ValueChoice, ...] = ()
    conversions: tuple[Conversion, ...] = ()
    ops: tuple[OpChoice, ...] = ()
    status: str = "optimal"
    objective: float = 0.0
    bound: float = 0.0
    counting: Callable[[], Conversions] = field(default=Conversions, compare=False, repr=False)
    left: Callable[[], Conversions] | None = field(default=None, compare=False, repr=False)

    @cached_property
    def before(self) -> Conversions:
        """The conversions of the unplanned module."""
        return self.counting()

    @cached_property
    def after(self) -> Conversions:
        """The conversions of the planned module, including those outside the plan."""
        if self.left is not None:
            return self.left()
        return Conversions(len(self.conversions), sum(c.bytes for c in self.conversions))

    @property
    def unmet(self) -> tuple[OpChoice, ...]:
        """The operators that do not have the layouts that were requested for them."""
        return tuple(op for op in self.ops if not op.met)

    def moved(self) -> tuple[ValueChoice, ...]:
        """The values in a layout that differs from the model's."""
        return tuple(v for v in self.values if not v.layout.is_identity)

    @property
    def symbolic(self) -> bool:
        """Whether bytes depend on symbolic extents."""
        return any(not isinstance(e, int) for v in self.values for e in v.shape)

    def summary(self) -> str:
        """One line: conversions before and after, and whether the plan is optimal."""
        counts = f"conversions: {self.before!r} before, {self.after!r} after"
        return f"{counts}; {self.certainty()}"

    def certainty(self) -> str:
        """The number of values in other layouts, and whether another plan may cost less."""
        moved = f"{len(self.moved())} of {plural(len(self.values), 'value')} in another layout"
        plan = "the plan is optimal"
        if self.status != "optimal":
            plan = (f"the plan costs {self.objective:g}, any plan at least {self.bound:g} "
                    f"({self.status})")  # fmt: skip
        if self.unmet:
            first = self.unmet[0]
            plan += f"; {plural(len(self.unmet), 'request')} not met, the first by {first.why}"
        note = f"; symbolic extents count as {SYMBOLIC}" if self.symbolic else ""
        return f"{moved}; {plan}{note}"

    def table(self) -> str:
        """The plan as text: values, ops with alternatives, conversions, summary."""
        values = [(v.name, describe(v), v.layout.spell(), v.why) for v in self.moved()]
        ops = [(o.name, o.op, o.implementation, o.why) for o in self.ops]
        conversions = [(c.value, f"{c.source.spell()} -> {c.target.spell()}", size(c.bytes), c.why)
                       for c in self.conversions]  # fmt: skip
        parts = [
            columns(("value", "type", "layout", "why"), values),
            columns(("op of", "operator", "implementation", "why"), ops),
            columns(("converted", "layouts", "bytes", "why"), conversions),
            self.summary(),
        ]
        return "\n\n".join(filter(None, parts))

    def to_json(self) -> dict[str, Any]:
        """The report as a value for `json.dumps`."""
        return {
            "status": self.status,
            "objective": self.objective,
            "bound": self.bound,
            "symbolic_extents_count": SYMBOLIC if self.symbolic else None,
            "before": {"number": self.before.number, "bytes": self.before.bytes},
            "after": {"number": self.after.number, "bytes": self.after.bytes},
            "values": [v.to_json() for v in self.values],
            "conversions": [c.to_json() for c in self.conversions],
            "ops": [o.to_json() for o in self.ops],
        }

    def __repr__(self) -> str:
        return self.table()


def describe(value: ValueChoice) -> str:
    """The type of a value: ``float32[1, 3, n, n]``."""
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"


def size(count: int) -> str:
    """A number of bytes for people, such as ``1.5 MiB``."""
    if count < 1024:
        return f"{count} B"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows as aligned text; empty without rows."""
    if not rows:
        return ""
    lines = [head, *rows]
    wide = [max(len(line[k]) for line in lines) for k in range(len(head))]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, wide, strict=True)).rstrip() for line in lines
    )
