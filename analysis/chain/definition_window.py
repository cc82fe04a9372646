"""Some consecutive definitions as one comprehension, and the operator that it is.

    T_max = max_k x; T_exp = exp(x - T_max); T_sum = Σ_k T_exp; T_norm = T_exp / T_sum
    ⇒ T_norm = exp(x - max_k x) / Σ_k exp(x - max_k x)                        relax.nn.softmax

Inner buffers are written into those that read them. What is left is over the buffers that the
window reads from outside, which become the parameters of a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx

from ..answer.recover import recover
from ..lifting.effects.tensor_expression import Comprehension, TensorExpression
from ..lifting.loops.reduction import canonical
from ..lifting.outputs import hard_choices
from ..proofs.context import simplify, thorough
from ..registry.registry import generation
from ..results.op_info import Answer
from ..support.tvm_compat import SBlock, SBlockRealize
from ..terms.term import SIZES, Int, Load, TensorVar, Term, Var, load
from ..terms.traversal import children, free, map_loads, tensors
from .define import TensorDefinition, TensorProgram, at, over

#: An operator has few tensor operands, unless it is one statement: concat, stack.
OPERANDS = 8


@dataclass(frozen=True)
class DefinitionWindow:
    """``lifted`` is over parameters of its own: ``reads``, then ``writes``.

    ``body`` is what the last one of ``writes`` holds, over the buffers themselves.
    """

    lifted: TensorExpression
    reads: tuple[TensorVar, ...]
    writes: tuple[TensorVar, ...]
    definitions: tuple[TensorDefinition, ...]
    body: Term

    @property
    def tensors(self) -> tuple[TensorVar, ...]:
        return (*self.reads, *self.writes)


class Growing:
    """The windows that start at one definition: each definition that is added makes the next."""

    def __init__(self) -> None:
        self.definitions: list[TensorDefinition] = []
        self._bodies: dict[TensorVar, Term] = {}
        self._reads: dict[TensorVar, None] = {}

    def add(self, d: TensorDefinition) -> bool:
        """False if no operator can have this definition as well."""
        if d.body is None:
            return False
        inner = tensors(d.body) & self._bodies.keys()
        read = tensors(d.body)
        order = (*(t for t in d.order if t in read), *_reads(d.body))
        self._reads |= dict.fromkeys(t for t in order if t not in inner)
        body = d.body
        if inner:
            body = map_loads(body, inner, lambda u, i: at(self._bodies[u], u, i))
        self._bodies[d.tensor] = simplify(body, ask=thorough) if hard_choices(body) else body
        self.definitions.append(d)
        return len(self.definitions) == 1 or len(self._reads) <= OPERANDS

    def window(self, kept: frozenset[TensorVar]) -> DefinitionWindow:
        """A comprehension for each definition that is in ``kept``."""
        writes = tuple(d.tensor for d in self.definitions if d.tensor in kept)
        return _renumbered(self.definitions, self._bodies, tuple(self._reads), writes)


def _reads(body: Term) -> list[TensorVar]:
    """The tensors that a term reads, in the order in which it is written down."""
    out: dict[TensorVar, None] = {}
    seen: set[Term] = set()
    stack = [body]
    while stack:
        s = stack.pop()
        if s in seen:
            continue
        seen.add(s)
        if isinstance(s, Load):
            out[s.tensor] = None
        stack.extend(reversed(children(s)))
    return list(out)


def _renumbered(
    found: Sequence[TensorDefinition],
    bodies: dict[TensorVar, Term],
    reads: tuple[TensorVar, ...],
    writes: tuple[TensorVar, ...],
) -> DefinitionWindow:
    """Over parameters that are the same objects for windows of the same types."""
    own = {t: _parameter(k, t.shape, t.dtype) for k, t in enumerate((*reads, *writes))}
    wanted = frozenset(reads)
    outputs = []
    for t in writes:
        body = map_loads(bodies[t], wanted, lambda u, i: load(own[u], i))
        outputs.append(Comprehension(own[t], over(t), canonical(body)))
    whole = {e.atom for t in own for e in t.shape}
    sizes = {v for c in outputs for v in free(c.body) if v.kind in SIZES}
    sizes |= {v for t in own for e in t.shape for v in free(e)}
    loose = sorted(sizes - whole, key=lambda v: v.uid)
    races = any(d.races for d in found)
    promises = any(d.promises for d in found)
    lifted = TensorExpression((*own.values(), *loose), tuple(outputs), races, promises=promises)
    return DefinitionWindow(lifted, reads, writes, tuple(found), canonical(bodies[writes[-1]]))


_PARAMETERS: dict[tuple[int, tuple[Int, ...], str], TensorVar] = {}


def _parameter(position: int, shape: tuple[Int, ...], dtype: str) -> TensorVar:
    key = (position, shape, dtype)
    found = _PARAMETERS.get(key)
    if found is None:
        found = _PARAMETERS[key] = TensorVar(f"p{position}", shape, dtype, position)
    return found


#: `recover`, or a part of it.
How = Callable[[TensorExpression, Any], Answer]


class Recover:
    """`recover` of windows, once for windows that are the same compute."""

    def __init__(self) -> None:
        self._known: dict[Any, Answer] = {}
        self._generation = generation()

    def __call__(
        self, w: DefinitionWindow, program: TensorProgram | None, how: How = recover
    ) -> Answer:
        if self._generation != generation():
            self._known, self._generation = {}, generation()
        func = None if program is None else Statements.of(w, program)
        key = (
            w.lifted.params,
            tuple(c.body for c in w.lifted.outputs),
            w.lifted.races,
            w.lifted.promises,
            how,
            0 if func is None else func.hash(),
        )
        if key not in self._known:
            self._known[key] = how(w.lifted, func)
        return self._known[key]


@dataclass(frozen=True)
class Statements:
    """The statements of a window, to be compared with an operator's own lowering."""

    body: Any
    buffers: dict[TensorVar, Any]
    params: tuple[TensorVar | Var, ...]
    variables: dict[Any, Any]

    @staticmethod
    def of(w: DefinitionWindow, program: TensorProgram) -> Statements | None:
        """None if the statements write other buffers too."""
        places = sorted(frozenset().union(*(d.statements for d in w.definitions)))
        if any(program.writers[p] - {d.tensor for d in w.definitions} for p in places):
            return None
        own = {
            t: p
            for t, p in zip(w.tensors, w.lifted.params, strict=False)
            if isinstance(p, TensorVar)
        }
        if not all(t in program.buffers for t in (*own, *(d.tensor for d in w.definitions))):
            return None
        parts = [program.statements[p] for p in places]
        body = parts[0] if len(parts) == 1 else tirx.SeqStmt(parts)
        inner = [program.buffers[d.tensor] for d in w.definitions if d.tensor not in w.writes]
        root = SBlock([], [], [], "root", body, alloc_buffers=inner)
        realized = SBlockRealize([], tirx.IntImm("bool", 1), root)
        buffers = {own[t]: program.buffers[t] for t in own}
        return Statements(realized, buffers, w.lifted.params, program.variables)

    def over(self, params: Sequence[TensorVar | Var]) -> Any:
        """A PrimFunc over these parameters in this order, or None if one is missing or twice."""
        known: dict[Any, Any] = {**self.buffers, **self.variables}
        if len(set(params)) != len(params) or any(p not in known for p in params):
            return None
        return tirx.PrimFunc([known[p] for p in params], self.body)

    def hash(self) -> int:
        func = self.over(self.params)
        return 0 if func is None else int(tvm_ffi.structural_hash(func, map_free_vars=True))
