"""What the planner knows of each PrimFunc, once for those that are structurally equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.answer.analyser import Analyser
from ...analysis.blocks.blocks import Forms, Opaque
from ...analysis.certify.structural_equality import ByStructure
from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.results.op_info import Answer, Refusal
from ...analysis.support.progress import stage
from ...analysis.terms.flat import volume
from ...analysis.terms.term import Load
from ..access.flow import BlockGraph, flow
from ..graph.relax_graph import Graph, Op
from ..model.layout import Layout
from ..verify.verify import known, prove_moved
from .alternatives import Kind
from .constraints import Offers, Want, Wishes, offered, want


@dataclass(frozen=True)
class Implementation:
    """A PrimFunc to use for an operator.

    Attributes:
        op: The operator's full Relax name.
        func: The PrimFunc.
        layouts: The layout of each of its buffers; None for a scalar.
    """

    op: str
    func: Any
    layouts: tuple[Layout | None, ...]


class Kinds:
    """By PrimFunc: what is wanted of it and how layouts flow through it."""

    def __init__(
        self, desired: Wishes, given: Sequence[Implementation] = (), offers: Offers = (),
        analyse: Analyser | None = None,
    ) -> None:  # fmt: skip
        self.desired, self.given, self.offers, self.form = desired, given, offers, Forms()
        self.analyse = analyse or Analyser()
        self.known = ByStructure(self.kind)
        self.flows: dict[BlockGraph, BlockGraph] = {}  # convolutions of any widths flow alike

    def of(self, graph: Graph) -> dict[Op, Kind]:
        """By op. Raises ``ValueError`` where desired layouts do not fit an operator."""
        found = {}
        for k, op in enumerate(graph.ops):
            stage("recognising operators", k, len(graph.ops))
            found[op] = self.known(op.func)
        return found

    def kind(self, func: Any) -> Kind:
        found: BlockGraph | None = None
        reason = ""
        try:
            found = flow(func, self.form)
            found = self.flows.setdefault(found, found)
        except Opaque as e:
            reason = e.reason
        moves = found is not None and only_moves(self.analyse.lifted(func))
        if not self.desired and not self.given and not self.offers:
            return Kind(found, reason, None, moves)
        info = self.analyse(func)
        for one in self.given:
            if info.operator is not None and info.operator.name == one.op:
                made = _replaced(func, one)
                if made is not None:
                    named = strings(info.info)
                    return Kind(found, reason, made, moves, one.func, strings=named)
        asked = want(info, self.desired, func)
        offers = offered(info, self.offers) if asked is None else ()
        return Kind(found, reason, asked, moves, offers=offers, strings=strings(info.info))


def strings(found: Answer) -> tuple[str, ...]:
    """By parameter of a PrimFunc, the layout string that the operator has for the buffer."""
    return () if isinstance(found, Refusal) else found.layouts


def _replaced(func: Any, given: Implementation) -> Want | None:
    """The layouts of an implementation if it is proved to compute what the PrimFunc does."""
    before = known(func)
    same = len(given.layouts) == len(func.params) == len(given.func.params)
    if isinstance(before, Refusal) or not same:
        return None
    if isinstance(prove_moved(before, given.func, given.layouts), Refusal):
        return None
    layouts = {k: x for k, x in enumerate(given.layouts) if x is not None}
    return Want(layouts, f"{given.op} has an implementation of its own", exact=True)


def only_moves(lifted: TensorExpression | Refusal) -> bool:
    """Whether each output element is one of the only input, and there are as many of both."""
    if isinstance(lifted, Refusal) or len(lifted.outputs) != 1 or len(lifted.inputs) != 1:
        return False
    (c,) = lifted.outputs
    return isinstance(_load(c.body), Load) and _size(lifted, 0) is _size(lifted, 1)


def _load(body: Any) -> Any:
    return getattr(body, "atom", None) or body


def _size(lifted: TensorExpression, k: int) -> Any:
    return volume(getattr(lifted.params[k], "shape", ()))
