"""A PrimFunc as a list of definitions: a tensor expression for every buffer that it writes.

    T_conv = Σ pad(x) * w;  T_add = T_conv + b;  out = max(T_add, 0)

Each top-level statement is executed symbolically on its own, so that a read of a buffer that
earlier statements wrote remains a load. A buffer that several statements write gets one definition,
after the last of them. The result of a statement with fused loops (``compute_at``) is a term over
what it reads from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..lifting.effects.effects import Effects
from ..lifting.lift import Executor
from ..lifting.outputs import divides_by_size
from ..lifting.tir.annotations import check_annotations
from ..lifting.tir.facts import simplify_coordinates
from ..lifting.tir.unliftable import Unliftable
from ..terms.term import TRUE, Int, TensorVar, Term, load
from ..terms.traversal import map_loads, tensors
from .footprint import Footprint
from .stores_only import only_stores
from .tensor_program import TensorDefinition, TensorProgram, body_at, coordinates_of
from .whole_definitions import live_definitions, readers_of, substitute_partial, written_in_place


def define(func: Any) -> TensorProgram:
    """Return the definitions of a PrimFunc; raise `Unliftable` if its frame is not understood."""
    return _StatementExecutor(func).program()


class _StatementExecutor(Executor):
    """Executes a PrimFunc, and gives each statement that stores a definition of its own."""

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
        definitions = tuple(live_definitions(substitute_partial(separate, defined), outputs))
        in_place = written_in_place(self.params, written, definitions)
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
            readers_of(definitions),
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
        order = self._current(Footprint(stmt, self).loads())
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
        footprint = Footprint(stmt, self)
        stored, read = footprint.stores(), footprint.loads()
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
