"""Find traps: out-of-bounds accesses, zero divisors and endless loops caused by padding.

Equal outputs do not exclude traps, because discarded values are computed too. So every statement is
checked, even dead ones. An index, divisor or extent that data determines is safe if

- it is in bounds whatever the data holds (clamped), or
- it is one element of a parameter whose elements are all used that way at n, and 0 is in bounds;
  then the padding must hold 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from ...analysis.lifting.effects.tensor_expression import TensorExpression
from ...analysis.lifting.tir.from_tir import ExpressionReader
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.proofs.prove import prove
from ...analysis.support.ir.call_ops import op_name
from ...analysis.terms.condition_terms import conj, ge0, parts
from ...analysis.terms.term import (
    TRUE,
    ZERO,
    Int,
    Load,
    TensorVar,
    Term,
    Var,
    as_int,
    fresh,
    load,
    size,
    variable,
)
from ...analysis.terms.traversal import free, replace, subterms
from .data_dependence import DIVISIONS, STOPS, may_depend_on_data, nodes_of, operands, reads_data
from .padding_problem import Facts, UnprovedPadding


def demands(func: Any, lifted: TensorExpression, grown: Iterable[TensorVar]) -> frozenset[int]:
    """Return the growing parameters whose padding must hold 0.

    Raises:
        UnprovedPadding: A trap cannot be excluded.
    """
    walker = _Walker(func, lifted, frozenset(t.position for t in grown))
    if not walker.any:
        return frozenset()
    try:
        walker.statement(func.body, ())
    except Unliftable as error:
        raise UnprovedPadding(
            f"an expression that data determines cannot be lifted: {error}"
        ) from None
    return frozenset(walker.zero)


class _Env:
    """Maps scalar variables to terms."""

    def __init__(self) -> None:
        self.bound = NodeDict[Term]()

    def get(self, var: Any) -> Term | None:
        term = self.bound.get(var)
        if term is None and not is_buffer_var(var):
            term = self.bound[var] = as_int(size(f"{var.name}#{id(var)}"))
        return term


class _Walker:
    """Visits all statements with the values of loop variables and the enclosing conditions."""

    def __init__(self, func: Any, lifted: TensorExpression, grown: frozenset[int]) -> None:
        self.grown = grown
        self.env, self.tensors = _Env(), NodeDict[TensorVar]()
        self.params = {p: k for k, p in enumerate(items(func.params)) if is_buffer_var(p)}
        self.reader = ExpressionReader(self.env, self.read)
        self.zero: set[int] = set()
        self.any = may_depend_on_data(func.body)
        stored = [s.buffer for s in nodes_of(func.body) if type(s).__name__ == "BufferStore"]
        self.written = {k for p, k in self.params.items() if any(p.same_as(b) for b in stored)}
        for param, lifted_param in zip(items(func.params), lifted.params, strict=True):
            if isinstance(lifted_param, Var):
                self.env.bound[param] = as_int(
                    variable(lifted_param.kind, f"{param.name}#{id(param)}")
                )

    def read(self, buffer: Any, index: tuple[Int, ...]) -> Term:
        return load(self.tensor(buffer), index)

    def tensor(self, buffer: Any) -> TensorVar:
        tensor = self.tensors.get(buffer)
        if tensor is None:
            place = next((k for p, k in self.params.items() if p.same_as(buffer)), -1)
            shape = tuple(map(self.reader.index, items(buffer.ty.shape)))
            tensor = self.tensors[buffer] = TensorVar(
                buffer.name, shape, str(buffer.ty.dtype), place
            )
        return tensor

    # -------------------------------------------------------------------- statements

    def statement(self, stmt: Any, facts: Facts) -> None:
        kind = type(stmt).__name__
        if kind in STOPS:
            raise UnprovedPadding(f"a {kind} may fail or not terminate, depending on the padding")
        rule = getattr(self, f"_{kind}", None)
        if rule is None:
            raise UnprovedPadding(f"a {kind} next to data-dependent expressions is not supported")
        rule(stmt, facts)

    def _SeqStmt(self, stmt: Any, facts: Facts) -> None:
        for part in items(stmt.seq):
            self.statement(part, facts)

    def _For(self, stmt: Any, facts: Facts) -> None:
        start, extent = self.reader.index(stmt.min), self.reader.index(stmt.extent)
        if start.reads or extent.reads:
            raise UnprovedPadding(
                f"data determines the extent of the loop over {stmt.loop_var.name}"
            )
        self.expression(stmt.min, facts)
        self.expression(stmt.extent, facts)
        var = fresh(extent, stmt.loop_var.name)
        self.env.bound[stmt.loop_var] = start + as_int(var)
        some = prove(ge0(extent - 1)).proved
        self.statement(stmt.body, facts if some else (*facts, stmt))

    def _SBlockRealize(self, stmt: Any, facts: Facts) -> None:
        block = stmt.block
        for iv, value in zip(items(block.iter_vars), items(stmt.iter_values), strict=True):
            self.expression(value, facts)
            self.env.bound[iv.var] = self.reader.index(value)
        if len(block.match_buffers):
            raise UnprovedPadding(
                "a matched buffer next to data-dependent expressions is not supported"
            )
        self.expression(stmt.predicate, facts)
        facts = (*facts, *_conditions(self.reader(stmt.predicate)))
        if block.init is not None:
            self.statement(block.init, facts)
        self.statement(block.body, facts)

    def _IfThenElse(self, stmt: Any, facts: Facts) -> None:
        self.expression(stmt.condition, facts)
        self.statement(stmt.then_case, (*facts, stmt))
        if stmt.else_case is not None:
            self.statement(stmt.else_case, (*facts, stmt))

    def _BufferStore(self, stmt: Any, facts: Facts) -> None:
        for i in items(stmt.indices):
            self.expression(i, facts)
        self.expression(stmt.value, facts)
        self.access(stmt.buffer, items(stmt.indices), facts, "store into")

    def _Bind(self, stmt: Any, facts: Facts) -> None:
        self.expression(stmt.value, facts)
        self.env.bound[stmt.var] = self.reader(stmt.value)

    def _AllocBuffer(self, stmt: Any, facts: Facts) -> None:
        return

    def _AttrStmt(self, stmt: Any, facts: Facts) -> None:
        if stmt.attr_key in ("thread_extent", "virtual_thread"):
            extent = self.reader.index(stmt.value)
            self.env.bound[stmt.node.var] = as_int(fresh(extent, stmt.node.var.name))
        self.statement(stmt.body, facts)

    def _Evaluate(self, stmt: Any, facts: Facts) -> None:
        self.expression(stmt.value, facts)

    # -------------------------------------------------------------------- expressions

    def expression(self, expr: Any, facts: Facts) -> None:
        """Check every access and division in an expression."""
        kind = type(expr).__name__
        if kind in ("Var", "IntImm", "FloatImm", "StringImm"):
            return
        if kind == "Let":
            self.env.bound[expr.var] = self.reader(expr.value)
        if kind == "Select":
            facts = (*facts, expr)
        chosen = kind == "Call" and op_name(expr).endswith("if_then_else")
        for part in operands(expr):
            self.expression(part, (*facts, expr) if chosen else facts)
        if kind == "TensorLoad":
            self.access(expr.source, items(expr.indices), facts, "read of")
        if kind in DIVISIONS and "int" in str(expr.ty.dtype):
            self.division(expr)

    def division(self, expr: Any) -> None:
        divisor = expr.b
        if type(divisor).__name__ == "IntImm" and int(divisor.value) > 0:
            return
        poly = as_int(self.reader(divisor)) if str(divisor.ty.dtype) in ("int32", "int64") else None
        if poly is not None and not poly.reads and prove(ge0(poly - 1)).proved:
            return
        raise UnprovedPadding(f"the divisor {str(divisor)[:60]} may be zero in the padding")

    def access(self, buffer: Any, indices: list[Any], facts: Facts, what: str) -> None:
        terms = [self.reader.index(i) if reads_data(i) or _bound_reads(i, self.env) else None
                 for i in indices]  # fmt: skip
        for d, poly in enumerate(terms):
            if poly is None or not poly.reads:
                continue
            extent = self.tensor(buffer).shape[d]
            if prove(conj(ge0(poly), ge0(extent - 1 - poly))).proved:
                continue
            self.element(
                poly, extent, facts, f"data determines axis {d} of the {what} {buffer.name}"
            )

    def element(self, poly: Int, extent: Int, facts: Facts, where: str) -> None:
        """Prove that an index is one element of a parameter, all used at n, with 0 in bounds."""
        loads = [s for s in subterms(poly) if isinstance(s, Load)]
        if len(loads) != 1 or facts:
            raise UnprovedPadding(f"{where}, by more than one element or under a condition")
        (read,) = loads
        position = read.tensor.position
        if position < 0 or position in self.written or not _covers_tensor(read):
            raise UnprovedPadding(f"{where}, without using every element of a parameter")
        zero = as_int(replace(poly, {read: ZERO}))
        if free(zero) or not _increasing(extent):
            raise UnprovedPadding(f"{where}, by more than one element")
        if position not in self.grown:
            return
        if not prove(conj(ge0(zero), ge0(extent - 1 - zero))).proved:
            raise UnprovedPadding(
                f"{where}, where 0 in the padding of {read.tensor.name} is out of bounds"
            )
        self.zero.add(position)


def _increasing(extent: Int) -> bool:
    """Return whether an extent never shrinks when a size grows."""
    return all(c >= 0 and all(isinstance(a, Var) for a in m) for m, c in extent.terms)


def _covers_tensor(read: Load) -> bool:
    """Return whether loops cover all elements: each coordinate is a distinct, full loop."""
    seen: set[Term] = set()
    for poly, extent in zip(read.indices, read.tensor.shape, strict=True):
        if extent.const == 1 and poly.const == 0:
            continue
        term = poly.atom
        if not isinstance(term, Var) or term.extent is not extent or term in seen:
            return False
        seen.add(term)
    return True


def _conditions(term: Term) -> Facts:
    """Return the conjuncts of a condition."""
    return () if term is TRUE else parts(term)


def _bound_reads(expr: Any, env: _Env) -> bool:
    """Return whether a variable in an expression is bound to data."""
    values = (env.bound.get(x) for x in nodes_of(expr) if type(x).__name__ == "Var")
    return any(v is not None and v.reads for v in values)
