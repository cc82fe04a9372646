"""Loops whose number of iterations is only known at run time, as recursive functions.

Relax has no loop. A function runs its iterations in two halves: the stack grows with the logarithm
of their number, and collected rows are copied as often.

    def loop(start, count, alive, *states):
        if count > 1 and alive:
            half = count // 2
            alive, *states, first = loop(start, half, alive, *states)
            alive, *states, second = loop(start + half, count - half, alive, *states)
            return alive, *states, concat(first, second)
        if count == 1 and alive:
            alive, *states, row = body(start, alive, *states)
            return alive, *states, expand_dims(row, 0)
        return alive, *states, zeros(0, ...)

A `while` has the largest count. What the body reads from outside is a parameter too, and sizes are
the dimensions of a shape.
"""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from ..onnx_node import OnnxNode, dims_of
from ..values import NotConvertible, TensorValue, of_expr
from . import captured

ENDLESS = 2**62


def loop_values(graph: Any, node: OnnxNode) -> list[Any]:
    """Emit a Loop as a call of a recursive function and return its values."""
    return _Loop(graph, node).values()


class _Loop:
    """A Loop as a recursive function over its states."""

    def __init__(self, graph: Any, node: OnnxNode) -> None:
        self.graph, self.node, self.builder = graph, node, graph.builder
        self.body = node.attr("body")
        names = [entry.name for entry in self.body.input]
        results = [entry.name for entry in self.body.output]
        carried = list(range(len(node.inputs) - 2))
        self.collected = len(results) - 1 - len(carried)
        #: Values that the body passes on are not states, and keep what is known of them.
        self.kept = [k for k in carried if names[k + 2] == results[k + 1]]
        self.states = [k for k in carried if k not in self.kept]
        self.initial = [graph.tensor(node.value(k + 2)) for k in self.states]
        fixed = {names[k + 2]: node.inputs[k + 2] for k in self.kept}
        read = {name: node.scope.get(name) for name in captured.names(self.body)}
        self.outside = captured.outside({**read, **fixed}, self.initial)
        self.types = [self._type(expr) for expr in self.initial]
        self.rows: list[Any] = []

    def values(self) -> list[Any]:
        """Define the function, call it, and return the carried values and the collected ones."""
        count = self.graph.tensor(self.node.value(0)) if self.node.has(0) else None
        alive = self.graph.tensor(self.node.value(1)) if self.node.has(1) else None
        count = relax.const(ENDLESS, "int64") if count is None else _scalar(self.builder, count)
        alive = relax.const(True, "bool") if alive is None else _scalar(self.builder, alive)
        gvar = self._function()
        start = relax.const(0, "int64")
        call = [gvar, start, count, alive, self.initial, list(self.outside.exprs.values())]
        _, *results = self._call(*call)
        states, rows = results[: len(self.states)], results[len(self.states) :]
        carried = dict(zip(self.states, map(of_expr, states), strict=True))
        carried |= {k: self.node.inputs[k + 2] for k in self.kept}
        symbol = [tirx.Var(f"loop_{k}", "int64") for k in range(len(rows))]
        typed = [self.builder.match_cast(row, relax.TensorType([n, *dims_of(one)], one.ty.dtype))
                 for n, row, one in zip(symbol, rows, self.rows, strict=True)]  # fmt: skip
        return [*(carried[k] for k in sorted(carried)), *map(of_expr, typed)]

    def _function(self) -> Any:
        """Add the function to the module and return its variable."""
        boolean, integer = relax.TensorType((), "bool"), relax.TensorType((), "int64")
        start, count, alive = (relax.Var(name, kind) for name, kind in (
            ("start", integer), ("count", integer), ("alive", boolean)))  # fmt: skip
        states = [relax.Var(f"state_{k}", kind) for k, kind in enumerate(self.types)]
        outer = [relax.Var(f"outer_{k}", expr.ty)
                    for k, expr in enumerate(self.outside.exprs.values())]  # fmt: skip
        sizes = relax.Var("sizes", relax.ShapeType(self.outside.symbols))
        params = [sizes, start, count, alive, *states, *outer]
        known = self.graph.arithmetic.aliases
        self.builder.begin_scope(params)
        try:
            leaf = self._block(lambda: self._leaf(start, alive, states, outer))
            rows = [relax.TensorType(ndim=r.ty.ndim + 1, dtype=str(r.ty.dtype)) for r in self.rows]
            declared = relax.TupleType([boolean, *self.types, *rows])
            empty = relax.Function.create_empty(params, declared)
            gvar = self.builder.add_func(empty, "loop")
            halves = self._block(lambda: self._halves(gvar, params))
            none = self._block(lambda: self._none(alive, states))
            body = self._block(lambda: self._chosen(count, alive, halves, leaf, none), nested=True)
        finally:
            self.builder.end_scope()
            self.graph.arithmetic.aliases = known
        func = relax.Function(params, body, declared)
        self.builder.update_func(gvar, relax.utils.copy_with_new_vars(func))
        return gvar

    def _block(self, emit: Any, nested: bool = False) -> Any:
        """Return what is emitted as an expression of its own."""
        self.builder._begin_binding_block()
        try:
            result = emit()
            result = result if nested else self.builder.emit(relax.Tuple(result))
        finally:
            block = self.builder._end_block()
        return relax.SeqExpr([block], result)

    def _chosen(self, count: Any, alive: Any, halves: Any, leaf: Any, none: Any) -> Any:
        emit, one = self.builder.emit, relax.const(1, "int64")
        some = emit(relax.op.logical_and(alive, relax.op.greater_equal(count, one)))
        many = emit(relax.op.logical_and(alive, relax.op.greater(count, one)))
        inner = self._block(lambda: emit(relax.If(some, leaf, none)), nested=True)
        return emit(relax.If(many, halves, inner))

    def _leaf(self, start: Any, alive: Any, states: list[Any], outer: list[Any]) -> list[Any]:
        """One iteration."""
        scope = {**self.outside.scope,
                 **dict(zip(self.outside.exprs, map(of_expr, outer), strict=True))}  # fmt: skip
        values = dict(zip(self.states, map(of_expr, states), strict=True))
        names = [entry.name for entry in self.body.input]
        values |= {k: scope[names[k + 2]] for k in self.kept}
        inputs = [of_expr(start), of_expr(alive), *(values[k] for k in sorted(values))]
        results = self.graph.run(self.body, inputs, scope)
        if any(not isinstance(value, TensorValue) for value in results):
            raise NotConvertible("its body returns a sequence or nothing, expected tensors")
        exprs = [self.graph.tensor(value) for value in results]
        after = [self.node.cast_shape(exprs[k + 1], list(kind.shape.values))
                 for k, kind in zip(self.states, self.types, strict=True)]  # fmt: skip
        self.rows = exprs[len(exprs) - self.collected :] if self.collected else []
        inner = captured.symbols_of(row.ty for row in self.rows) - set(self.outside.symbols)
        if inner:
            raise NotConvertible("the sizes of what it collects depend on data", list(inner))
        rows = [self.builder.emit(relax.op.expand_dims(row, 0)) for row in self.rows]
        return [_scalar(self.builder, exprs[0]), *after, *rows]

    def _none(self, alive: Any, states: list[Any]) -> list[Any]:
        """No iteration."""
        shapes = [relax.ShapeExpr([0, *row.ty.shape.values]) for row in self.rows]
        rows = [self.builder.emit(relax.op.zeros(shape, str(row.ty.dtype)))
                for shape, row in zip(shapes, self.rows, strict=True)]  # fmt: skip
        return [alive, *states, *rows]

    def _halves(self, gvar: Any, params: list[Any]) -> list[Any]:
        """Two calls, for the first half of the iterations and for the others."""
        emit, (_, start, count, alive, *more) = self.builder.emit, params
        states, outer = more[: len(self.states)], more[len(self.states) :]
        half = emit(relax.op.floor_divide(count, relax.const(2, "int64")))
        alive, *first = self._call(gvar, start, half, alive, states, outer)
        start, rest = emit(relax.op.add(start, half)), emit(relax.op.subtract(count, half))
        states, rows = first[: len(states)], first[len(states) :]
        alive, *second = self._call(gvar, start, rest, alive, states, outer)
        joined = [self._joined(a, b, row) for a, b, row in
                  zip(rows, second[len(states) :], self.rows, strict=True)]  # fmt: skip
        return [alive, *second[: len(states)], *joined]

    def _joined(self, first: Any, second: Any, row: Any) -> Any:
        parts = [
            self.builder.match_cast(part, relax.TensorType(
                [tirx.Var(name, "int64"), *row.ty.shape.values], str(row.ty.dtype)))
            for part, name in ((first, "first"), (second, "second"))
        ]  # fmt: skip
        return self.builder.emit(relax.op.concat(parts, 0))

    def _call(self, gvar: Any, start: Any, count: Any, alive: Any, *more: Any) -> list[Any]:
        sizes = relax.ShapeExpr(self.outside.symbols)
        args = [sizes, start, count, alive, *(expr for exprs in more for expr in exprs)]
        result = self.builder.emit(relax.Call(gvar, args))
        return [self.builder.emit(relax.TupleGetItem(result, k))
                for k in range(len(result.ty.fields))]  # fmt: skip

    def _type(self, expr: Any) -> Any:
        return relax.TensorType(dims_of(expr), str(expr.ty.dtype))


def _scalar(builder: Any, expr: Any) -> Any:
    return builder.emit(relax.op.reshape(expr, ())) if expr.ty.ndim else expr
