"""A PrimFunc as a list of definitions: a tensor expression for every buffer that it writes.

    T_conv = Σ pad(x) * w;  T_add = T_conv + b;  out = max(T_add, 0)

Each top-level statement is executed symbolically on its own, so that a read of a buffer that
earlier statements wrote remains a load. A buffer that several statements write gets one definition,
after the last of them. The result of a statement with fused loops (``compute_at``) is a term over
what it reads from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from ..lifting.effects.effects import Effects
from ..lifting.lift import Executor
from ..lifting.outputs import divides_by_size
from ..lifting.tir.annotations import check_annotations
from ..lifting.tir.facts import simplify_coordinates
from ..lifting.tir.from_tir import Unliftable
from ..proofs.context import simplify, thorough
from ..terms.term import TRUE, Int, TensorVar, Term, Var, axis, load
from ..terms.traversal import map_loads, substitute, tensors
from .confined import only_stores
from .reach import Reach


@dataclass(frozen=True)
class TensorDefinition:
    """``tensor[y0, y1, …] = body``, as the top-level ``statements`` compute it.

    If the body is not known, it is None and ``problem`` says why; ``opaque`` says that the
    statement itself is not understood; ``updates`` that it reads the parameter's old content.
    ``order`` has the tensors that are read, in the order in
    which the statements name them. For ``races``, ``promises``, ``distinct`` and ``assumed`` see
    `TensorExpression`.
    """

    tensor: TensorVar
    body: Term | None
    statements: frozenset[int]
    problem: str = ""
    order: tuple[TensorVar, ...] = ()
    races: bool = False
    promises: bool = False
    opaque: bool = False
    distinct: bool = True
    updates: bool = False
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorProgram:
    """A PrimFunc's definitions in order; ``outputs`` are those of its output parameters.

    ``buffers`` maps a tensor to its TIR buffer, ``variables`` a TIR variable to its term;
    ``statements`` are the top-level statements, ``writers`` the tensors that each of them writes,
    ``readers`` the definitions that read a tensor. ``inplace_indices`` has, for each output, the
    position of the parameter whose old content it updates, or -1.
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
    inplace_indices: tuple[int, ...] = ()


def define(func: Any) -> TensorProgram:
    """Return the definitions of a PrimFunc; raise `Unliftable` if its frame is not understood."""
    return _Splitter(func).program()


def coordinates_of(tensor: TensorVar) -> tuple[Int, ...]:
    """Return the coordinates over which the definition of a tensor is written."""
    return tuple(axis(d, e) for d, e in enumerate(tensor.shape))


def body_at(body: Term, tensor: TensorVar, index: tuple[Int, ...]) -> Term:
    """Return the body of a tensor's definition at an element."""
    pairs = zip(coordinates_of(tensor), index, strict=True)
    return substitute(body, {a.atom: i for a, i in pairs if isinstance(a.atom, Var)})


class _Splitter(Executor):
    def __init__(self, func: Any) -> None:
        super().__init__(func)
        self.func = func
        none = [None] * len(func.params)
        self.bind_sizes(func.params, none)
        for position, param in enumerate(func.params):
            self.bind_param(param, position, None)
        self.params = tuple(self.values[p] for p in func.params)
        self.variables = {x.atom: v for v, x in self.env.items() if isinstance(x, Int)}
        self.version: dict[TensorVar, TensorVar] = {}
        self.definitions: dict[TensorVar, TensorDefinition] = {}

    def program(self) -> TensorProgram:
        statements = self._statements()
        written = [t for t in self.params if isinstance(t, TensorVar) and t in self.version]
        if not written:
            raise Unliftable("the function writes no element of a parameter")
        names = {t: b for b, t in self.values.items() if isinstance(t, TensorVar)}
        buffers = {v: names[t] for t, v in self.version.items()}
        buffers |= {t: b for t, b in names.items() if t in self.inputs}
        outputs = tuple(self.version[t] for t in written)
        defined = self.inputs | self.definitions.keys()
        promises, assumed = self.promises, tuple(self.assumed)
        separate = [
            replace(d, promises=promises, assumed=assumed) for d in self.definitions.values()
        ]
        definitions = tuple(_live(_substitute_partial(separate, defined), outputs))
        in_place = _updated(self.params, written, definitions)
        old = {self.version[t]: t for t in in_place}
        definitions = tuple(
            replace(d, updates=d.body is not None and old.get(d.tensor) in tensors(d.body))
            for d in definitions
        )
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
            tuple(k if t in in_place else -1 for k, t in enumerate(self.params) if t in written),
        )

    def is_computed(self, tensor: TensorVar, effects: Effects) -> bool:
        return tensor in self.version or super().is_computed(tensor, effects)

    def _statements(self) -> tuple[Any, ...]:
        """Execute the statements; one that is not understood is replaced by its parts."""
        done, todo = list[Any](), list(self._frame(self.func.body))
        while todo:
            stmt = todo.pop(0)
            try:
                self._statement(len(done), stmt)
            except (Unliftable, RecursionError) as error:
                parts = self._parts(stmt)
                if parts:
                    todo = [*parts, *todo]
                    continue
                self._opaque(len(done), stmt, error)
            done.append(stmt)
        return tuple(done)

    def _parts(self, stmt: Any) -> list[Any]:
        """The statements of a block without iterators, or of a branch that is always taken."""
        kind, body = type(stmt).__name__, None
        try:
            if kind == "SBlockRealize" and _is_bare(stmt):
                check_annotations(stmt.block, stmt.block.name_hint)
                for buffer in stmt.block.alloc_buffers:
                    self.bind_buffer(buffer)
                body = stmt.block.body
            if kind == "IfThenElse" and stmt.else_case is None:
                body = stmt.then_case if self.reader(stmt.condition) is TRUE else None
            return [] if body is None else list(self._frame(body))
        except Unliftable:
            return []

    def _frame(self, stmt: Any) -> Iterator[Any]:
        """The top-level statements, inside the root block and bindings."""
        kind = type(stmt).__name__
        if (
            kind == "SBlockRealize"
            and stmt.same_as(self.func.body)
            and not len(stmt.block.iter_vars)
        ):
            if len(stmt.block.match_buffers) or not _is_true(stmt.predicate):
                raise Unliftable("the root block is conditional or renames buffers")
            check_annotations(stmt.block, stmt.block.name_hint)
            for buffer in stmt.block.alloc_buffers:
                self.bind_buffer(buffer)
            yield from self._frame(stmt.block.body)
        elif kind == "SeqStmt":
            for part in stmt.seq:
                yield from self._frame(part)
        elif kind == "AllocBuffer":
            self.run(stmt)
        elif kind == "Bind":
            self.run(stmt)
            if tensors(self.env[stmt.var]):
                raise Unliftable("several statements share a value that is read", stmt.var.name)
        else:
            yield stmt

    def _statement(self, place: int, stmt: Any) -> None:
        """Define what a statement stores; raise `Unliftable` if it is not understood."""
        self.races, self.distinct = False, True
        effects = self.nested(stmt)
        for tensor, writes in effects.writes.items():
            self.check_stores(tensor, writes)
        before = dict(self.version)
        order = self._current(Reach(stmt, self).loads())
        for tensor in [t for t in effects.writes if t in self.scopes]:
            try:
                body = effects.read(tensor, coordinates_of(tensor))
                if divides_by_size(body):
                    body = simplify_coordinates(body)
            except (Unliftable, RecursionError) as error:
                # only a problem if the tensor is read later
                self._add(tensor, None, place, str(error), order)
                continue
            current = map_loads(
                body, frozenset(before), lambda tensor, index: load(before[tensor], index)
            )
            self._add(tensor, current, place, "", order)

    def _opaque(self, place: int, stmt: Any, error: Unliftable | RecursionError) -> None:
        """Define the tensors that a statement stores as unknown, if it has no other effect."""
        if not only_stores(stmt):
            raise error
        reach = Reach(stmt, self)
        stored, read = reach.stores(), reach.loads()
        if not stored:
            raise error
        # an element that it does not store keeps its value
        order = self._current(dict.fromkeys((*read, *(t for t in stored if t in self.version))))
        for tensor in stored:
            self._add(tensor, None, place, str(error), order, opaque=True)

    def _current(self, read: Iterable[TensorVar]) -> tuple[TensorVar, ...]:
        return tuple(self.version.get(t, t) for t in read)

    def _add(
        self,
        tensor: TensorVar,
        body: Term | None,
        place: int,
        problem: str,
        order: tuple[TensorVar, ...] = (),
        opaque: bool = False,
    ) -> None:
        before = self.version.get(tensor)
        statements, races, distinct = frozenset({place}), self.races, self.distinct
        if before is not None:
            old = self.definitions[before]
            if body is not None and before in tensors(body):
                if not old.opaque:
                    statements |= old.statements
                    races, distinct = races | old.races, distinct & old.distinct
                if old.body is None and not old.opaque:
                    body, problem = None, old.problem
                elif old.body is not None:
                    term = old.body
                    body = map_loads(
                        body,
                        frozenset({before}),
                        lambda tensor, index: body_at(term, tensor, index),
                    )
        new = TensorVar(tensor.name, tensor.shape, tensor.dtype)
        self.version[tensor] = new
        self.definitions[new] = TensorDefinition(
            new, body, statements, problem, order, races, opaque=opaque, distinct=distinct
        )


def _updated(
    params: Sequence[TensorVar | Var],
    written: Sequence[TensorVar],
    definitions: Iterable[TensorDefinition],
) -> frozenset[TensorVar]:
    """The parameters that are written in place: an old element is read, or an input follows."""
    read = frozenset[TensorVar]().union(
        *(d.order if d.body is None else tensors(d.body) for d in definitions)
    )
    buffers = [p for p in params if isinstance(p, TensorVar) and not p.scalar]
    last = max((k for k, t in enumerate(buffers) if t not in written), default=-1)
    return frozenset(t for t in written if t in read or buffers.index(t) < last)


def _is_bare(stmt: Any) -> bool:
    """Whether a block only groups its statements."""
    block = stmt.block
    return (
        not len(block.iter_vars)
        and not len(block.match_buffers)
        and block.init is None
        and _is_true(stmt.predicate)
    )


def _is_true(expr: Any) -> bool:
    return (
        bool(getattr(expr, "value", expr) == 1) if type(expr).__name__ == "IntImm" else expr is True
    )


def _substitute_partial(
    definitions: list[TensorDefinition], defined: Set[TensorVar]
) -> list[TensorDefinition]:
    """Definitions of whole buffers: a partial one is substituted into those that read it.

    ``defined`` are the inputs and the tensors with a definition. Any other tensor is the content of
    a buffer before it is written, or the private copy of a thread.
    """
    partial: dict[TensorVar, tuple[TensorDefinition, Term]] = {}
    out = []
    for definition in definitions:
        body = definition.body
        if body is not None:
            used = frozenset(partial) & tensors(body)
            if used:
                body = map_loads(
                    body, used, lambda tensor, index: body_at(partial[tensor][1], tensor, index)
                )
                more = (partial[t][0].statements for t in used)
                definition = replace(definition, statements=definition.statements.union(*more))
            if not tensors(body) <= defined:
                body = simplify(body, ask=thorough)
        if body is not None and not tensors(body) <= defined:
            partial[definition.tensor] = definition, body
            problem = "an element is read before it is written"
            definition = replace(definition, body=None, problem=problem)
        out.append(
            definition
            if body is definition.body or definition.problem
            else replace(definition, body=body)
        )
    return out


def _readers(definitions: tuple[TensorDefinition, ...]) -> dict[TensorVar, frozenset[TensorVar]]:
    out: dict[TensorVar, set[TensorVar]] = {d.tensor: set() for d in definitions}
    for definition in definitions:
        for tensor in definition.order if definition.body is None else tensors(definition.body):
            out.setdefault(tensor, set()).add(definition.tensor)
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
    for definition in reversed(definitions):
        if definition.tensor in needed or definition.opaque:
            out.append(definition)
            needed |= (
                tensors(definition.body) if definition.body is not None else set(definition.order)
            )
    return out[::-1]
