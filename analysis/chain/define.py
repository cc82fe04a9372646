"""A PrimFunc as a list of definitions: a tensor expression for every buffer that it writes.

    T_conv = Σ pad(x) * w;  T_add = T_conv + b;  out = max(T_add, 0)

Each top-level statement is executed symbolically on its own, so that a read of a buffer that
earlier statements wrote remains a load. A buffer that several statements write gets one definition,
after the last of them. The result of a statement with fused loops (``compute_at``) is a term over
what it reads from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

from ..lifting.lift import Executor
from ..lifting.tir.annotations import check_annotations
from ..lifting.tir.from_tir import Unliftable
from ..proofs.context import simplify, thorough
from ..terms.term import Int, TensorVar, Term, Var, axis, load
from ..terms.traversal import map_loads, substitute, tensors
from .confined import only_stores
from .reach import Reach


@dataclass(frozen=True)
class TensorDefinition:
    """``tensor[y0, y1, …] = body``, as the top-level ``statements`` compute it.

    If the body is not known, it is None and ``problem`` says why; ``opaque`` says that the
    statement itself is not understood. ``order`` has the tensors that are read, in the order in
    which the statements name them. For ``races`` and ``promises`` see `TensorExpression`.
    """

    tensor: TensorVar
    body: Term | None
    statements: frozenset[int]
    problem: str = ""
    order: tuple[TensorVar, ...] = ()
    races: bool = False
    promises: bool = False
    opaque: bool = False


@dataclass(frozen=True)
class TensorProgram:
    """A PrimFunc's definitions in order; ``outputs`` are those of its output parameters.

    ``buffers`` maps a tensor to its TIR buffer, ``variables`` a TIR variable to its term;
    ``statements`` are the top-level statements, ``writers`` the tensors that each of them writes,
    ``readers`` the definitions that read a tensor.
    """

    func: Any
    params: tuple[TensorVar | Var, ...]
    definitions: tuple[TensorDefinition, ...]
    outputs: tuple[TensorVar, ...]
    buffers: dict[TensorVar, Any]
    variables: dict[Any, Any]
    statements: tuple[Any, ...]
    writers: tuple[frozenset[TensorVar], ...]
    readers: dict[TensorVar, frozenset[TensorVar]]


def define(func: Any) -> TensorProgram:
    """Return the definitions of a PrimFunc; raise `Unliftable` if its frame is not understood."""
    return _Splitter(func).program()


def over(tensor: TensorVar) -> tuple[Int, ...]:
    """Return the coordinates over which the definition of a tensor is written."""
    return tuple(axis(d, e) for d, e in enumerate(tensor.shape))


def at(body: Term, tensor: TensorVar, index: tuple[Int, ...]) -> Term:
    """Return the body of a tensor's definition at an element."""
    pairs = zip(over(tensor), index, strict=True)
    return substitute(body, {a.atom: i for a, i in pairs if isinstance(a.atom, Var)})


class _Splitter(Executor):
    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func
        none = [None] * len(func.params)
        self.bind_sizes(func.params, none)
        for position, p in enumerate(func.params):
            self.bind_param(p, position, None)
        self.params = tuple(self.values[p] for p in func.params)
        self.variables = {x.atom: v for v, x in self.env.items() if isinstance(x, Int)}
        self.version: dict[TensorVar, TensorVar] = {}
        self.definitions: dict[TensorVar, TensorDefinition] = {}

    def program(self) -> TensorProgram:
        statements = tuple(self._frame(self.func.body))
        for place, s in enumerate(statements):
            self._statement(place, s)
        written = [t for t in self.params if isinstance(t, TensorVar) and t in self.version]
        places = [t in self.version for t in self.params if isinstance(t, TensorVar)]
        if not written or not all(places[places.index(True) :]):
            raise Unliftable("the outputs are not the last buffers")
        names = {t: b for b, t in self.values.items() if isinstance(t, TensorVar)}
        buffers = {v: names[t] for t, v in self.version.items()}
        buffers |= {t: b for t, b in names.items() if t in self.inputs}
        outputs = tuple(self.version[t] for t in written)
        known = self.inputs.difference(written) | self.definitions.keys()
        separate = [replace(d, promises=self.promises) for d in self.definitions.values()]
        definitions = tuple(_live(_substitute_partial(separate, known), outputs))
        writers = tuple(
            frozenset(d.tensor for d in self.definitions.values() if place in d.statements)
            for place in range(len(statements))
        )
        return TensorProgram(
            self.func,
            self.params,
            definitions,
            outputs,
            buffers,
            self.variables,
            statements,
            writers,
            _readers(definitions),
        )

    def _frame(self, s: Any) -> Iterator[Any]:
        """The top-level statements, inside the root block and bindings."""
        kind = type(s).__name__
        if kind == "SBlockRealize" and s.same_as(self.func.body) and not len(s.block.iter_vars):
            if len(s.block.match_buffers) or not _is_true(s.predicate):
                raise Unliftable("the root block is conditional or renames buffers")
            check_annotations(s.block, s.block.name_hint)
            for b in s.block.alloc_buffers:
                self.bind_buffer(b)
            yield from self._frame(s.block.body)
        elif kind == "SeqStmt":
            for part in s.seq:
                yield from self._frame(part)
        elif kind == "AllocBuffer":
            self.run(s)
        elif kind == "Bind":
            self.run(s)
            if tensors(self.env[s.var]):
                raise Unliftable("a value that is read is bound for all statements", s.var.name)
        else:
            yield s

    def _statement(self, place: int, s: Any) -> None:
        self.races = False
        try:
            effects = self.nested(s)
            for t, writes in effects.writes.items():
                self.check_stores(t, writes)
        except (Unliftable, RecursionError) as e:
            self._opaque(place, s, e)
            return
        before = dict(self.version)
        order = self._now(Reach(s, self).loads())
        for t in [t for t in effects.writes if t in self.scopes]:
            try:
                body = effects.read(t, over(t))
            except (Unliftable, RecursionError) as e:  # only a problem if the tensor is read later
                self._add(t, None, place, str(e), order)
                continue
            now = map_loads(body, frozenset(before), lambda u, i: load(before[u], i))
            self._add(t, now, place, "", order)

    def _opaque(self, place: int, s: Any, e: Unliftable | RecursionError) -> None:
        """Define the tensors that a statement stores as unknown, if it has no other effect."""
        if not only_stores(s):
            raise e
        reach = Reach(s, self)
        stored, order = reach.stores(), self._now(reach.loads())
        if not stored:
            raise e
        for t in stored:
            self._add(t, None, place, str(e), order, opaque=True)

    def _now(self, read: Iterable[TensorVar]) -> tuple[TensorVar, ...]:
        return tuple(self.version.get(t, t) for t in read)

    def _add(
        self,
        t: TensorVar,
        body: Term | None,
        place: int,
        problem: str,
        order: tuple[TensorVar, ...] = (),
        opaque: bool = False,
    ) -> None:
        before = self.version.get(t)
        statements, races = frozenset({place}), self.races
        if before is not None:
            old = self.definitions[before]
            if body is not None and before in tensors(body):
                statements |= old.statements
                races |= old.races
                if old.body is None:
                    body, problem = None, old.problem
                else:
                    b = old.body
                    body = map_loads(body, frozenset({before}), lambda u, i: at(b, u, i))
        new = TensorVar(t.name, t.shape, t.dtype)
        self.version[t] = new
        self.definitions[new] = TensorDefinition(
            new, body, statements, problem, order, races, opaque=opaque
        )


def _is_true(e: Any) -> bool:
    return bool(getattr(e, "value", e) == 1) if type(e).__name__ == "IntImm" else e is True


def _substitute_partial(
    definitions: list[TensorDefinition], known: Set[TensorVar]
) -> list[TensorDefinition]:
    """Definitions of whole buffers: a partial one is substituted into those that read it.

    ``known`` are the inputs and the defined tensors. Any other tensor is the content of a buffer
    before it is written, or the private copy of a thread.
    """
    partial: dict[TensorVar, tuple[TensorDefinition, Term]] = {}
    out = []
    for d in definitions:
        body = d.body
        if body is not None:
            used = frozenset(partial) & tensors(body)
            if used:
                body = map_loads(body, used, lambda u, i: at(partial[u][1], u, i))
                more = (partial[t][0].statements for t in used)
                d = replace(d, statements=d.statements.union(*more))
            if not tensors(body) <= known:
                body = simplify(body, ask=thorough)
        if body is not None and not tensors(body) <= known:
            partial[d.tensor] = d, body
            problem = "an element is read before it is written"
            d = replace(d, body=None, problem=problem)
        out.append(d if body is d.body or d.problem else replace(d, body=body))
    return out


def _readers(definitions: tuple[TensorDefinition, ...]) -> dict[TensorVar, frozenset[TensorVar]]:
    out: dict[TensorVar, set[TensorVar]] = {d.tensor: set() for d in definitions}
    for d in definitions:
        for t in d.order if d.body is None else tensors(d.body):
            out.setdefault(t, set()).add(d.tensor)
    return {t: frozenset(r) for t, r in out.items()}


def _live(
    definitions: list[TensorDefinition], outputs: tuple[TensorVar, ...]
) -> list[TensorDefinition]:
    """The definitions that an output depends on, and those of opaque statements.

    An opaque statement may not end, or store outside its buffers, so its function is not understood
    as a whole.
    """
    needed = set(outputs)
    out = []
    for d in reversed(definitions):
        if d.tensor in needed or d.opaque:
            out.append(d)
            needed |= tensors(d.body) if d.body is not None else set(d.order)
    return out[::-1]
