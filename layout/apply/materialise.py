"""A module in the layouts of its plans.

Before: lv1 = R.call_tir(cls.conv2d, (x, w), out_ty=R.Tensor((1, 64, 56, 56), "float32"))
After:  lv0 = R.permute_dims(x, [0, 2, 3, 1])
        lv1 = R.call_tir(cls.conv2d, (lv0, w_OHWI), out_ty=R.Tensor((1, 56, 56, 64), "float32"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import relax

from ...analysis.support.origin import span_of
from ..alternatives.alternative import GIVEN
from ..alternatives.op_spec import OpSpec
from ..graph.relax_graph import Graph, Op, Value
from ..graph.unused import without_unused
from ..model.layout import Layout
from ..rewrite.rewrite import ParamAlias, Rewritten
from ..search.function_plan import Plan
from .conversion import layouts_of
from .physical_values import PhysicalValues

Rewrite = Callable[[Any, Sequence[Layout | None], bool], Rewritten | ParamAlias]
Layouts = tuple[Layout | None, ...]


def materialise(
    mod: Any,
    plans: Mapping[Any, tuple[Graph, Plan]],
    specs: Mapping[Op, OpSpec],
    rewrite: Rewrite,
    budget: int | None = None,
) -> Any:
    """The module with each planned Relax function rewritten; the input is not changed.

    Constants are converted at compile time. A constant in several layouts gets a copy for each,
    as long as copies take at most ``budget`` bytes in all; further ones are converted at run time.
    """
    materialiser = _Materialiser(mod, specs, rewrite, budget)
    for gvar, (graph, plan) in plans.items():
        materialiser.function(gvar, mod[gvar], graph, plan)
    return without_unused(materialiser.builder_.get(), mod)


@relax.expr_functor.mutator
class _Materialiser(relax.PyExprMutator):  # type: ignore[misc]
    """Writes each function in the layouts of its plan, with the conversions that remain."""

    def __init__(
        self, mod: Any, specs: Mapping[Op, OpSpec], rewrite: Rewrite, budget: int | None
    ) -> None:
        super().__init__(mod)
        self.specs, self.rewrite = specs, rewrite
        self.values = PhysicalValues(budget)
        self.added: dict[tuple[int, Layouts], Any] = {}

    def function(self, gvar: Any, func: Any, graph: Graph, plan: Plan) -> None:
        self.graph, self.plan = graph, plan
        self.values.start(self.builder_, func, graph, plan)
        self.started = False
        self.params = list(func.params)
        new = list(map(self.parameter, self.params))
        moved = any(not self.same(p, q) for p, q in zip(self.params, new, strict=True))
        body = _bound(func.body) if moved else func.body
        func = relax.Function(new, body, func.ret_ty, func.is_pure, func.attrs)
        self.builder_.update_func(gvar, self.visit_expr(func))

    def parameter(self, param: Any) -> Any:
        """The variable of a parameter; a new one if its layout is pinned."""
        value = self.graph.of.get(param)
        layout = None if value is None else self.plan.stored[value]
        if value is None or layout is None or layout.is_identity:
            return param
        ty = relax.TensorType(layout.physical(value.shape), value.dtype, value.vdevice)
        new = relax.Var(param.name, ty)
        self.values.at[value] = {layout: new}
        return new

    # ------------------------------------------------------------------------ bindings

    def visit_match_cast_(self, binding: Any) -> None:
        self.begin(binding.var)
        self.values.span = span_of(binding)
        super().visit_match_cast_(binding)
        self.opaque(binding.var)

    def visit_var_binding_(self, binding: Any) -> None:
        self.begin(binding.var)
        self.values.span = span_of(binding)
        op = self.graph.by_var.get(binding.var)
        value = self.graph.of.get(binding.var)
        if op is not None:
            self.op(op, binding)
        elif (
            value is not None
            and value.expr is not binding.var
            and not self.same(value.expr, binding.var)
        ):
            self.alias(value, binding.var)
        elif not self.only_parts(binding):
            super().visit_var_binding_(binding)
            self.opaque(binding.var)

    def opaque(self, var: Any) -> None:
        """Record a value that anything but a ``call_tir`` produced."""
        value = self.graph.of.get(var)
        if value is not None:
            self.values.enter(var)
            self.values.record(value, Layout.identity(value.rank), self.visit_expr(var), var)

    def only_parts(self, binding: Any) -> bool:
        """Whether a binding is a tuple of which only the fields are used."""
        parts = self.graph.tuples.get(binding.var)
        return isinstance(binding.value, relax.Tuple) and parts is not None \
            and any(v.pinned is None for v in parts)  # fmt: skip

    @staticmethod
    def same(a: Any, b: Any) -> bool:
        return a is not None and a.__chandle__() == b.__chandle__()

    def begin(self, var: Any) -> None:
        """Convert the parameters before the first binding."""
        self.values.enter(var)
        if self.started:
            return
        self.started = True
        for param in self.params:
            value = self.graph.of.get(param)
            if value is not None:
                layout = self.plan.stored[value]
                new_param = self.values.at[value][layout] if value in self.values.at else param
                self.values.record(value, layout, self.visit_expr(new_param), param)
                if value in self.plan.needed and not layout.is_identity:
                    self.set_var_remap(param, self.values.at[value][self.plan.needed[value]])

    def alias(self, value: Value, var: Any) -> None:
        """Bind another name of a value, or a field of a tuple, if it is needed."""
        if value in self.plan.needed:
            expr = self.values.at[value][self.plan.needed[value]]
            out = not isinstance(var, relax.DataflowVar)
            plain = isinstance(expr, relax.DataflowVar) and out
            self.set_var_remap(var, self.values.emit(expr, var, out) if plain else expr)

    def op(self, op: Op, binding: Any) -> None:
        layouts = layouts_of(self.plan.layouts(op))
        unchanged = self.plan.chosen[op].why == GIVEN
        replacement = None if unchanged else self.specs[op].replacement
        same = all(x is None for x in layouts) and (unchanged or not self.specs[op].named)
        if replacement is None and same:
            call = self.call(self.visit_expr(op.call.args[0]), op, _types(op.call))
            self.results(op, binding, self.bind_results(call, op, binding.var))
            return
        shares = self.graph.shares(op)
        new = self.rewrite(op.func, layouts, shares) if replacement is None else None
        if new is not None and new.identity is not None and shares:
            source = self.arguments(op)[new.identity]
            physical = self.plan.chosen[op].outputs[0].physical(op.outputs[0].shape)
            self.results(
                op, binding, self.bind_results(_reshaped(source, physical), op, binding.var)
            )
            return
        assert not isinstance(new, ParamAlias)
        gvar = self.gvar(op, layouts, replacement if new is None else new.func)
        self.results(
            op, binding, self.bind_results(self.call(gvar, op, self.types(op)), op, binding.var)
        )

    def bind_results(self, expr: Any, op: Op, var: Any) -> Any:
        """Bind the results of an op."""
        plain = not isinstance(var, relax.DataflowVar)
        outputs = zip(op.outputs, self.plan.chosen[op].outputs, strict=True)
        out = plain or any(self.values.leaves(v, x, var) for v, x in outputs)
        named = isinstance(expr, relax.Var) and not out  # FuseOps does not see through names
        return expr if named else self.values.emit(expr, var, out)

    def types(self, op: Op) -> list[Any]:
        alternative = self.plan.chosen[op]
        return [relax.TensorType(x.physical(v.shape), v.dtype, v.vdevice)
                for v, x in zip(op.outputs, alternative.outputs, strict=True)]  # fmt: skip

    def call(self, gvar: Any, op: Op, types: list[Any]) -> Any:
        many = hasattr(op.call.ty, "fields")
        arguments = relax.Tuple(self.arguments(op))
        return relax.call_tir(gvar, arguments, out_ty=types if many else types[0])

    def results(self, op: Op, binding: Any, new: Any) -> None:
        """Record the results of an op, and convert them to the layouts that are read."""
        alternative = self.plan.chosen[op]
        many = hasattr(op.call.ty, "fields")
        for k, (value, layout) in enumerate(zip(op.outputs, alternative.outputs, strict=True)):
            part = new
            if many:
                out = self.values.leaves(value, layout, binding.var)
                part = self.values.emit(relax.TupleGetItem(new, k), binding.var, out)
            self.values.record(value, layout, part, binding.var)
        if not many:
            self.alias(op.outputs[0], binding.var)
        elif any(output in self.plan.needed for output in op.outputs):
            needed = [
                self.plan.needed.get(output, stored)
                for output, stored in zip(op.outputs, alternative.outputs, strict=True)
            ]
            parts = [
                self.values.at[output][stored]
                for output, stored in zip(op.outputs, needed, strict=True)
            ]
            plain = not isinstance(binding.var, relax.DataflowVar)
            self.set_var_remap(
                binding.var, self.values.emit(relax.Tuple(parts), binding.var, plain)
            )

    def arguments(self, op: Op) -> list[Any]:
        read = self.plan.reads[op]
        fields = list(op.call.args[1].fields)
        return [
            self.visit_expr(expr) if value is None else self.values.operand(value, read.get(k))
            for k, (value, expr) in enumerate(zip(op.inputs, fields, strict=True))
        ]

    def gvar(self, op: Op, layouts: Layouts, func: Any) -> Any:
        key = (op.call.args[0].__chandle__(), layouts)
        if key not in self.added:
            self.added[key] = self.builder_.add_func(func, op.name)
        return self.added[key]


def _bound(body: Any) -> Any:
    """The body as a sequence expression, so that conversions can be added."""
    if len(body.blocks):
        return body
    out = relax.Var("out", body.body.ty)
    return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(out, body.body)])], out)


def _reshaped(expr: Any, shape: tuple[Any, ...]) -> Any:
    same = len(expr.ty.shape) == len(shape) and all(
        isinstance(b, int) and hasattr(a, "value") and int(a) == b
        for a, b in zip(expr.ty.shape, shape, strict=True)
    )
    return expr if same else relax.op.reshape(expr, shape)


def _types(call: Any) -> list[Any]:
    return list(call.ty.fields) if hasattr(call.ty, "fields") else [call.ty]
