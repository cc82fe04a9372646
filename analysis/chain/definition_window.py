"""Consecutive definitions as one tensor expression, and the operator that it is.

    T_max = max_k x; T_exp = exp(x - T_max); T_sum = Σ_k T_exp; T_norm = T_exp / T_sum
    ⇒ T_norm = exp(x - max_k x) / Σ_k exp(x - max_k x)                        relax.nn.softmax

Inner buffers are substituted into the definitions that read them. The buffers that the window reads
from outside become the parameters of the tensor expression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ..answer.recover import recover
from ..lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ..lifting.loops.reduction import canonical
from ..lifting.outputs import hard_choices
from ..proofs.context import simplify, thorough
from ..registry.registry import generation
from ..results.op_info import Answer
from ..support.tvm_compat import SBlock, SBlockRealize
from ..terms.term import SIZES, Int, Load, TensorVar, Term, Var, load
from ..terms.traversal import children, free, map_loads, tensors
from .tensor_program import TensorDefinition, TensorProgram, body_at, coordinates_of

#: The most operands of an operator, except one with a single statement: concat, stack.
OPERANDS = 8


@dataclass(frozen=True)
class DefinitionWindow:
    """A tensor expression over its own parameters: ``reads``, then ``writes``.

    ``body`` is the last definition of ``writes``, over the original buffers; ``written`` is the
    same with the reductions as they are written, ``body`` with those of ``canonical``.
    """

    lifted: TensorExpression
    reads: tuple[TensorVar, ...]
    writes: tuple[TensorVar, ...]
    definitions: tuple[TensorDefinition, ...]
    body: Term
    written: Term

    @property
    def tensors(self) -> tuple[TensorVar, ...]:
        return (*self.reads, *self.writes)

    @property
    def scalars(self) -> tuple[Var, ...]:
        """The scalar parameters of the PrimFunc that are integers, which follow the tensors."""
        return tuple(p for p in self.lifted.params if isinstance(p, Var) and p.dtype != "int")


class Growing:
    """The windows that start at one definition; each added definition completes the next window."""

    def __init__(self) -> None:
        self.definitions: list[TensorDefinition] = []
        self._bodies: dict[TensorVar, Term] = {}
        self._reads: dict[TensorVar, None] = {}

    def add(self, definition: TensorDefinition) -> bool:
        """Add a definition; return False if no operator can include it."""
        if definition.body is None:
            return False
        inner = tensors(definition.body) & self._bodies.keys()
        read = tensors(definition.body)
        order = (*(t for t in definition.order if t in read), *_reads(definition.body))
        self._reads |= dict.fromkeys(t for t in order if t not in inner)
        body = definition.body
        if inner:
            body = map_loads(
                body, inner, lambda tensor, index: body_at(self._bodies[tensor], tensor, index)
            )
        self._bodies[definition.tensor] = (
            simplify(body, ask=thorough) if hard_choices(body) else body
        )
        self.definitions.append(definition)
        return len(self.definitions) == 1 or len(self._reads) <= OPERANDS

    def window(self, kept: Collection[TensorVar]) -> DefinitionWindow:
        """Return the window, with an output for each definition in `kept`, in their order."""
        writes = tuple(d.tensor for d in self.definitions if d.tensor in kept)
        return _renumbered(self.definitions, self._bodies, tuple(self._reads), writes)

    def ordered(self, writes: tuple[TensorVar, ...]) -> DefinitionWindow:
        """Return the window with these outputs, in this order."""
        return _renumbered(self.definitions, self._bodies, tuple(self._reads), writes)


def _reads(body: Term) -> list[TensorVar]:
    """The tensors that a term reads, in the order of the text."""
    out: dict[TensorVar, None] = {}
    seen: set[Term] = set()
    stack = [body]
    while stack:
        term = stack.pop()
        if term in seen:
            continue
        seen.add(term)
        if isinstance(term, Load):
            out[term.tensor] = None
        stack.extend(reversed(children(term)))
    return list(out)


def _renumbered(
    definitions: Sequence[TensorDefinition],
    bodies: dict[TensorVar, Term],
    reads: tuple[TensorVar, ...],
    writes: tuple[TensorVar, ...],
) -> DefinitionWindow:
    """The window over parameters that are shared by all windows of the same types."""
    parameters = {t: _parameter(k, t) for k, t in enumerate((*reads, *writes))}
    outside = frozenset(reads)
    outputs = []
    for tensor in writes:
        body = map_loads(
            bodies[tensor], outside, lambda tensor, index: load(parameters[tensor], index)
        )
        outputs.append(
            OutputDefinition(parameters[tensor], coordinates_of(tensor), canonical(body))
        )
    extents = {e.atom for t in parameters for e in t.shape}
    sizes = {v for c in outputs for v in free(c.body) if v.kind in SIZES}
    sizes |= {v for t in parameters for e in t.shape for v in free(e)}
    unbound = sorted(sizes - extents, key=lambda var: (var.dtype == "int", var.uid))
    races = any(d.races for d in definitions)
    promises = any(d.promises for d in definitions)
    lifted = TensorExpression(
        (*parameters.values(), *unbound),
        tuple(outputs),
        races,
        promises=promises,
        distinct=all(d.distinct for d in definitions),
        assumed=tuple(dict.fromkeys(text for d in definitions for text in d.assumed)),
    )
    written = bodies[writes[-1]]
    return DefinitionWindow(lifted, reads, writes, tuple(definitions), canonical(written), written)


_PARAMETERS: dict[tuple[int, tuple[Int, ...], str, bool], TensorVar] = {}


def _parameter(position: int, like: TensorVar) -> TensorVar:
    key = (position, like.shape, like.dtype, like.scalar)
    parameter = _PARAMETERS.get(key)
    if parameter is None:
        parameter = TensorVar(f"p{position}", like.shape, like.dtype, position, like.scalar)
        _PARAMETERS[key] = parameter
    return parameter


#: `recover`, or one of its steps.
RecoverStep = Callable[[TensorExpression, Any], Answer]


class Recover:
    """`recover` with a cache: windows with equal tensor expressions are analysed once."""

    def __init__(self) -> None:
        self._cache: dict[Any, Answer] = {}
        self._generation = generation()

    def __call__(
        self, window: DefinitionWindow, program: TensorProgram | None, step: RecoverStep = recover
    ) -> Answer:
        if self._generation != generation():
            self._cache, self._generation = {}, generation()
        func = None if program is None else Statements.of(window, program)
        key = (
            window.lifted.params,
            tuple(c.body for c in window.lifted.outputs),
            window.lifted.races,
            window.lifted.distinct,
            window.lifted.promises,
            window.lifted.assumed,
            step,
            0 if func is None else func.hash(),
        )
        if key not in self._cache:
            self._cache[key] = step(window.lifted, func)
        return self._cache[key]


@dataclass(frozen=True)
class Statements:
    """The statements of a window, to compare them with an operator's own lowering."""

    body: Any
    buffers: dict[TensorVar, Any]
    params: tuple[TensorVar | Var, ...]
    variables: dict[Any, Any]

    @staticmethod
    def of(window: DefinitionWindow, program: TensorProgram) -> Statements | None:
        """Return the statements of a window; None if they write other buffers too."""
        places = sorted(
            frozenset().union(*(definition.statements for definition in window.definitions))
        )
        if any(program.writers[p] - {d.tensor for d in window.definitions} for p in places):
            return None
        parameters = {
            tensor: param
            for tensor, param in zip(window.tensors, window.lifted.params, strict=False)
            if isinstance(param, TensorVar)
        }
        if not all(
            tensor in program.buffers
            for tensor in (*parameters, *(definition.tensor for definition in window.definitions))
        ):
            return None
        parts = [program.statements[p] for p in places]
        body = parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)
        inner = [
            program.buffers[definition.tensor]
            for definition in window.definitions
            if definition.tensor not in window.writes
        ]
        root = SBlock([], [], [], "root", body, alloc_buffers=inner)
        realized = SBlockRealize([], tirx.IntImm("bool", 1), root)
        buffers = {parameters[tensor]: program.buffers[tensor] for tensor in parameters}
        return Statements(realized, buffers, window.lifted.params, program.variables)

    def over(self, params: Sequence[TensorVar | Var]) -> Any:
        """Return a PrimFunc over `params`, in their order; None if one is unknown or repeated."""
        nodes: dict[Any, Any] = {**self.buffers, **self.variables}
        if len(set(params)) != len(params) or any(p not in nodes for p in params):
            return None
        if len({nodes[p].__chandle__() for p in params}) != len(params):
            return None  # a buffer that is updated in place is an operand and a result
        return tirx.PrimFunc([nodes[p] for p in params], self.body)

    def hash(self) -> int:
        func = self.over(self.params)
        return 0 if func is None else int(tvm_ffi.structural_hash(func, map_free_vars=True))
