"""Nodes: the operators of a graph as patterns see them, and the readers of their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op, Value
from .elementwise_groups import Infos, group


@dataclass(frozen=True)
class Node:
    """An operator of the graph, as passed to a condition.

    Attributes:
        op: The call site.
        info: The recovered operator.
        chain: The value that it follows in the chain; None for an anchor.
        ops: The call sites, if several together compute one function of `chain`.
        infos: The recovered operators of the graph.
    """

    op: Op
    info: OpInfo
    chain: Value | None = None
    ops: tuple[Op, ...] = ()
    infos: Infos = field(default_factory=dict, compare=False, repr=False)

    def operand(self, k: int) -> Value | None:
        """The value of an operand; None if it is a literal scalar."""
        if k >= len(self.info.operands):
            return None
        operand = self.info.operands[k]
        return None if isinstance(operand, Constant) else self.op.values[operand]

    @property
    def operands(self) -> tuple[Value, ...]:
        """The operands without literal scalars."""
        values = map(self.operand, range(len(self.info.operands)))
        return tuple(v for v in values if v is not None)

    def source(self, k: int) -> Node | None:
        """The producer of an operand, if nothing else reads it."""
        value = self.operand(k)
        if value is None or value is self.chain or not is_read_once(value):
            return None
        nodes = (
            node(op, self.infos) for op in ([value.producer] if value.producer else value.makers)
        )
        return next((n for n in nodes if n is not None and len(n.op.outputs) == 1), None)

    @property
    def others(self) -> tuple[Value, ...]:
        """The operands except the value that the chain follows."""
        return tuple(v for v in self.operands if v is not self.chain)

    @property
    def result(self) -> Value:
        return self.op.outputs[0]

    @property
    def results(self) -> tuple[Value, ...]:
        """The results that the program uses, and the first one."""
        used = (v for v in self.op.outputs[1:] if v.uses or v.pinned is not None)
        return (self.result, *used)

    @property
    def tensors(self) -> list[Value]:
        """The results and the operands."""
        return [*self.results, *self.operands]


def node(op: Op, infos: Infos, chain: Value | None = None) -> Node | None:
    """The operator of an op; None if it was not recovered, or its buffers are packed."""
    info = infos[op].info
    if not isinstance(info, OpInfo) or info.packed:
        return None
    return Node(op, info, chain, (), infos)


def is_read_once(value: Value) -> bool:
    """Whether the program needs a value in one place only."""
    several = len(value.uses) > 1 and any(u.origin is None for u in value.uses)
    return value.pinned is None and not several


def follower(op: Op, infos: Infos) -> Node | None:
    """The only reader of an op's only result, if the program needs it nowhere else."""
    return next(followers(op, infos), None)


def followers(op: Op, infos: Infos) -> Iterator[Node]:
    """`follower` in each of its layouts, or several readers that together are one function."""
    if len(op.outputs) != 1:
        return
    (value,) = op.outputs
    if is_read_once(value):
        nodes = (node(u, infos, value) for u in value.uses)
        yield from (n for n in nodes if n is not None)
    elif (merged := group(value, infos)) is not None:
        yield Node(merged.op, merged.info, value, merged.ops, infos)
