"""Op specs: the constraints and the layout flow of each PrimFunc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.block_terms import Opaque
from ...analysis.certify.structural_equality import ByStructure
from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.lifting.tir.node import items
from ...analysis.results.op_info import Answer, Refusal
from ...analysis.support.progress import stage
from ...analysis.terms.row_major import volume
from ...analysis.terms.term import Load
from ..access.flow import BlockGraph, flow
from ..alternatives.op_spec import OpSpec
from ..alternatives.operator_forms import Elementwise, ProductForm, operator_form
from ..graph.relax_graph import Graph, Op
from ..rewrite.func_proofs import FuncProofs
from ..rewrite.inline import inlined
from .constraints import LayoutRequests, Offers, constraint_on, offered
from .replacements import Implementation, Replacement, replacement, tied_replacement


class OpSpecs:
    """The op spec of each PrimFunc, computed once for structurally equal ones."""

    def __init__(
        self,
        desired: LayoutRequests,
        implementations: Sequence[Implementation] = (),
        offers: Offers = (),
        proofs: FuncProofs | None = None,
        operators: bool = False,
    ) -> None:
        self.operators = operators  # whether each op must stay a Relax operator
        self.desired, self.implementations, self.offers = desired, implementations, offers
        self.proofs = proofs or FuncProofs()
        self.form, self.analyse = self.proofs.form, self.proofs.analyse
        self.spec_of = ByStructure(self.analysed)
        self.flows: dict[BlockGraph, BlockGraph] = {}  # convolutions of all widths share one flow

    def of(self, graph: Graph) -> dict[Op, OpSpec]:
        """The spec of each op. Raises ``ValueError`` if desired layouts do not fit an operator."""
        specs = {}
        for k, op in enumerate(graph.ops):
            stage("recognising operators", k, len(graph.ops))
            specs[op] = self.tied(op) or self.spec_of(op.func)
        return specs

    def tied(self, op: Op) -> OpSpec | None:
        """The spec of a call that reads a value more than once if an implementation fits it."""
        if len(set(op.inputs)) == len(op.inputs):
            return None
        spec = self.spec_of(op.func)
        for implementation in self.implementations:
            known = (self.analyse(f).operator for f in (op.func, implementation.func))
            if all(o is None or o.name != implementation.op for o in known):
                continue
            new = tied_replacement(op, implementation)
            if isinstance(new, Replacement):
                return replace(spec, constraint=new.constraint, replacement=new.func, cached={})
            if new is not None:
                return replace(spec, note=_note(implementation, new), cached={})
        return None

    def analysed(self, func: Any) -> OpSpec:
        blocks: BlockGraph | None = None
        reason = ""
        try:
            blocks = flow(func, self.form)
            blocks = self.flows.setdefault(blocks, blocks)
        except Opaque as error:
            reason = error.reason
        moves = blocks is not None and only_moves(self.analyse.lifted(func))
        form = self.operator_form(func, blocks) if blocks is not None and not moves else None
        if not self.desired and not self.implementations and not self.offers:
            return OpSpec(blocks, reason, None, moves, operator=self.operators, form=form)
        info = self.analyse(func)
        note = ""
        for implementation in self.implementations:
            new = replacement(func, info, implementation)
            if isinstance(new, Replacement):
                return OpSpec(blocks, reason, new.constraint, moves, new.func,
                              strings=strings(info.info))  # fmt: skip
            if new is not None:
                note = _note(implementation, new)
        requested = constraint_on(info, self.desired, func)
        offers = offered(info, self.offers) if requested is None else ()
        if requested is not None and isinstance(form, Elementwise):
            form = None
        return OpSpec(blocks, reason, requested, moves, offers=offers, strings=strings(info.info),
                      note=note, operator=self.operators, form=form)  # fmt: skip

    def operator_form(self, func: Any, blocks: BlockGraph) -> Elementwise | ProductForm | None:
        """How the layouts of an op depend on each other if it must stay an operator."""
        if not self.operators:
            return None
        plain = inlined(func, self.form(func)[0])  # without a padding by 0
        return operator_form(blocks if plain is func else flow(plain), shapes(func))


def _note(implementation: Implementation, refusal: Refusal) -> str:
    return f"the implementation of {implementation.op} is not proved equal: {refusal.reason}"


def shapes(func: Any) -> list[Sequence[Any]]:
    """The shape of each buffer parameter, with integers where extents are known."""
    buffers = (p.ty.shape for p in items(func.params) if is_buffer_var(p))
    return [[int(e) if isinstance(e, tirx.IntImm) else e for e in items(shape)]
            for shape in buffers]  # fmt: skip


def strings(answer: Answer) -> tuple[str, ...]:
    """The operator's layout string for each parameter of a PrimFunc."""
    return () if isinstance(answer, Refusal) else answer.layouts


def only_moves(lifted: TensorExpression | Refusal) -> bool:
    """Whether the only output permutes the elements of the only input."""
    if isinstance(lifted, Refusal) or len(lifted.outputs) != 1 or len(lifted.inputs) != 1:
        return False
    (definition,) = lifted.outputs
    return isinstance(_load(definition.body), Load) and size_term(lifted, 0) is size_term(lifted, 1)


def _load(body: Any) -> Any:
    return getattr(body, "atom", None) or body


def size_term(lifted: TensorExpression, position: int) -> Any:
    return volume(getattr(lifted.params[position], "shape", ()))
