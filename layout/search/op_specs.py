"""Op specs: the constraints and the layout flow of each PrimFunc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.answer.analyser import Analyser
from ...analysis.blocks.blocks import Forms, Opaque
from ...analysis.certify.structural_equality import ByStructure
from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.lifting.tir.node import items
from ...analysis.results.op_info import Answer, Refusal
from ...analysis.support.progress import stage
from ...analysis.terms.flat import volume
from ...analysis.terms.term import Load
from ..access.flow import BlockGraph, flow
from ..graph.relax_graph import Graph, Op
from ..model.layout import Layout
from ..verify.verify import lift_function, prove_moved
from .alternatives import OpSpec
from .constraints import LayoutConstraint, LayoutRequests, Offers, constraint_on, offered
from .operator_forms import operator_form


@dataclass(frozen=True)
class Implementation:
    """A PrimFunc to use for an operator wherever it provably computes it.

    Attributes:
        op: The operator's full Relax name.
        func: The PrimFunc.
        layouts: The layout of each of its buffers; None for a scalar.
    """

    op: str
    func: Any
    layouts: tuple[Layout | None, ...]


class OpSpecs:
    """The op spec of each PrimFunc, computed once for structurally equal ones."""

    def __init__(
        self,
        desired: LayoutRequests,
        implementations: Sequence[Implementation] = (),
        offers: Offers = (),
        analyse: Analyser | None = None,
        operators: bool = False,
    ) -> None:
        self.operators = operators  # whether each op must stay a Relax operator
        self.desired, self.implementations, self.offers = desired, implementations, offers
        self.form = Forms()
        self.analyse = analyse or Analyser()
        self.spec_of = ByStructure(self.analysed)
        self.flows: dict[BlockGraph, BlockGraph] = {}  # convolutions of all widths share one flow

    def of(self, graph: Graph) -> dict[Op, OpSpec]:
        """The spec of each op. Raises ``ValueError`` if desired layouts do not fit an operator."""
        specs = {}
        for k, op in enumerate(graph.ops):
            stage("recognising operators", k, len(graph.ops))
            specs[op] = self.spec_of(op.func)
        return specs

    def analysed(self, func: Any) -> OpSpec:
        blocks: BlockGraph | None = None
        reason = ""
        try:
            blocks = flow(func, self.form)
            blocks = self.flows.setdefault(blocks, blocks)
        except Opaque as error:
            reason = error.reason
        moves = blocks is not None and only_moves(self.analyse.lifted(func))
        form = operator_form(blocks, shapes(func)) if self.operators and blocks and not moves \
            else None  # fmt: skip
        if not self.desired and not self.implementations and not self.offers:
            return OpSpec(blocks, reason, None, moves, operator=self.operators, form=form)
        info = self.analyse(func)
        for implementation in self.implementations:
            if info.operator is not None and info.operator.name == implementation.op:
                replacement = _replacement_constraint(func, implementation)
                if replacement is not None:
                    return OpSpec(blocks, reason, replacement, moves, implementation.func,
                                  strings=strings(info.info))  # fmt: skip
        requested = constraint_on(info, self.desired, func)
        offers = offered(info, self.offers) if requested is None else ()
        form = form if requested is None else None
        return OpSpec(blocks, reason, requested, moves, offers=offers, strings=strings(info.info),
                      operator=self.operators, form=form)  # fmt: skip


def shapes(func: Any) -> list[Sequence[Any]]:
    """The shape of each buffer parameter, with integers where extents are known."""
    buffers = (p.ty.shape for p in items(func.params) if is_buffer_var(p))
    return [[int(e) if isinstance(e, tirx.IntImm) else e for e in items(shape)]
            for shape in buffers]  # fmt: skip


def strings(answer: Answer) -> tuple[str, ...]:
    """The operator's layout string for each parameter of a PrimFunc."""
    return () if isinstance(answer, Refusal) else answer.layouts


def _replacement_constraint(func: Any, implementation: Implementation) -> LayoutConstraint | None:
    """The layouts of an implementation if it is proved to compute the same as the PrimFunc."""
    before = lift_function(func)
    same = len(implementation.layouts) == len(func.params) == len(implementation.func.params)
    if isinstance(before, Refusal) or not same:
        return None
    if isinstance(prove_moved(before, implementation.func, implementation.layouts), Refusal):
        return None
    layouts = {k: x for k, x in enumerate(implementation.layouts) if x is not None}
    return LayoutConstraint(layouts, f"{implementation.op} has a given implementation", exact=True)


def only_moves(lifted: TensorExpression | Refusal) -> bool:
    """Whether the only output permutes the elements of the only input."""
    if isinstance(lifted, Refusal) or len(lifted.outputs) != 1 or len(lifted.inputs) != 1:
        return False
    (definition,) = lifted.outputs
    return isinstance(_load(definition.body), Load) and _size(lifted, 0) is _size(lifted, 1)


def _load(body: Any) -> Any:
    return getattr(body, "atom", None) or body


def _size(lifted: TensorExpression, k: int) -> Any:
    return volume(getattr(lifted.params[k], "shape", ()))
