"""Fuse products of one value with several constant weights into one product and a split.

    Before: q = R.call_tir(cls.f, (x, wq)); k = R.call_tir(cls.g, (x, wk)); v = …
    After:  y = R.call_tir(cls.h, (x, concat(wq, wk, wv))); q, k, v = R.call_tir(cls.split, (y,))

Products are recognised, before `LegalizeOps` by the operator and after it by the compute. Each
element is the same sum of the same products, in TVM's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax

from ...analysis import Chain, Refusal
from ...analysis.chain import Chains
from ...analysis.composites.defining.composite import attributes
from ...analysis.composites.products import TRANSPOSED_MATMUL, transposed_matmul
from ...analysis.lifting.tir.node import NodeDict
from ...analysis.support.ir.call_ops import is_call_tir
from ...analysis.support.tvm_compat import GenericConst, array_of
from ...layout.graph.unused import without_unused
from ..prepare.raising.raise_ops import STRENGTH

MATMUL = "relax.matmul"
#: Dtypes that numpy concatenates.
DTYPES = frozenset({"float16", "float32", "float64", "int8", "uint8", "int32"})


def fuse_qkv(mod: Any) -> Any:
    """Return a module in which products of one value with constant weights are one product.

    Args:
        mod: The module; it is not changed.

    Raises:
        TypeError: `mod` is not an IRModule.
    """
    if not isinstance(mod, tvm.IRModule):
        raise TypeError(f"FuseQKV: expected a tvm.IRModule, got {type(mod).__name__}")
    fuser = _QkvFuser(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function) and fuser.prepared(func):
            new = relax.analysis.remove_all_unused(fuser.visit_expr(func))
            fuser.builder_.update_func(gvar, new)
    if not fuser.count:
        return mod
    return without_unused(fuser.builder_.get(), mod)


@dataclass(frozen=True)
class _Projection:
    """``x @ weight``, or ``x @ transpose(weight)``.

    Attributes:
        var: The variable that it is bound to.
        x: The first operand.
        weight: The constant weight, with two axes.
        transposed: Whether the weight is transposed.
        out_dtype: The dtype to which operands are cast; empty for none.
        lowered: Whether it is a call of a PrimFunc.
    """

    var: Any
    x: Any
    weight: Any
    transposed: bool
    out_dtype: str
    lowered: bool

    @property
    def columns(self) -> int:
        return int(self.weight.ty.shape.values[0 if self.transposed else 1])

    def joins(self, other: _Projection) -> bool:
        """Whether it is of the same value and kind."""
        return (
            self.x.same_as(other.x)
            and str(self.weight.ty.dtype) == str(other.weight.ty.dtype)
            and (self.transposed, self.out_dtype, self.lowered)
            == (other.transposed, other.out_dtype, other.lowered)
        )


@relax.expr_functor.mutator
class _QkvFuser(relax.PyExprMutator):  # type: ignore[misc]
    """Merges the products of each dataflow block."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod, self.count = mod, 0
        self.chains = Chains()
        self.known: NodeDict[Chain | Refusal] = NodeDict()
        self.group: NodeDict[tuple[_Projection, ...]] = NodeDict()
        self.parts: NodeDict[Any] = NodeDict()

    def prepared(self, func: Any) -> bool:
        """Find the groups of products of a function; whether there are any."""
        self.group, self.parts = NodeDict(), NodeDict()
        for block in func.body.blocks:
            if isinstance(block, relax.DataflowBlock):  # nothing is written in one
                for group in _groups(list(self.products(block))):
                    for product in group:
                        self.group[product.var] = tuple(group)
        return len(list(self.group.items())) > 0

    def products(self, block: Any) -> Iterator[_Projection]:
        """The products of a dataflow block by constant matrices."""
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            product = self.lowered(binding.var, value) or _operator(binding.var, value)
            if product is not None and _is_matrix(product.weight):
                yield product

    def lowered(self, var: Any, call: Any) -> _Projection | None:
        """A call of a PrimFunc as a product; None for other expressions."""
        if not is_call_tir(call):
            return None
        func = self.mod[call.args[0]]
        if func not in self.known:
            self.known[func] = self.chains(func)
        chain = self.known[func]
        if not isinstance(chain, Chain) or len(chain.steps) != 1:
            return None
        (step,) = chain.steps
        if step.operator.name not in (MATMUL, TRANSPOSED_MATMUL) or step.info is not step.operator:
            return None
        if STRENGTH[step.operator.certificate.kind] < STRENGTH["proved"]:
            return None  # a product in real arithmetic: other values overflow on the way
        transposed = [bool(t) for t in step.attrs.get("transposed", (False, False))]
        places = step.operands
        if transposed[0] or len(places) != 2 or not all(isinstance(p, int) for p in places):
            return None
        x, weight = (call.args[1].fields[p] for p in places)
        out_dtype = str(step.attrs.get("out_dtype") or "")
        return _Projection(var, x, weight, transposed[1], out_dtype, True)

    def visit_var_binding_(self, binding: Any) -> None:
        group = self.group.get(binding.var)
        if group is None:
            super().visit_var_binding_(binding)
            return
        if binding.var not in self.parts:
            self.merge(group)
        part = self.builder_.normalize(self.parts[binding.var])
        local = isinstance(binding.var, relax.DataflowVar)
        emit = self.builder_.emit if local else self.builder_.emit_output
        self.set_var_remap(binding.var, emit(part))

    def merge(self, group: Sequence[_Projection]) -> None:
        """Emit the product with all weights of a group, and the split of its result."""
        first = group[0]
        axis = 0 if first.transposed else 1
        arrays = [array_of(p.weight).numpy() for p in group]
        weight = relax.const(np.concatenate(arrays, axis), str(first.weight.ty.dtype))
        x, out_dtype = self.visit_expr(first.x), first.out_dtype or None
        multiply = transposed_matmul if first.transposed else relax.op.matmul
        whole = self.emit(multiply(x, weight, out_dtype=out_dtype), first.lowered)
        ends = list(accumulate(p.columns for p in group))[:-1]
        split = self.emit(relax.op.split(whole, ends, axis=-1), first.lowered)
        for k, product in enumerate(group):
            self.parts[product.var] = relax.TupleGetItem(split, k)
        self.count += 1

    def emit(self, expr: Any, lowered: bool) -> Any:
        """Bind an operator, or the call of the PrimFunc to which it is lowered."""
        call = self.builder_.normalize(expr)
        if lowered:
            call = call.op.get_attr("FLegalize")(self.builder_, call)
        return self.builder_.emit(call)


def _operator(var: Any, call: Any) -> _Projection | None:
    """A call of an operator as a product; None for other expressions."""
    op = getattr(call, "op", None)
    name = str(op.name) if isinstance(op, ir.Op) else ""
    if name not in (MATMUL, TRANSPOSED_MATMUL):
        return None
    transposed = attributes(call)["transposed"] if name == TRANSPOSED_MATMUL else (False, False)
    if transposed[0]:
        return None
    dtype = call.attrs.out_dtype if name == MATMUL else attributes(call)["out_dtype"]
    text = "" if dtype is None or str(dtype) == "void" else str(dtype)
    return _Projection(var, call.args[0], call.args[1], bool(transposed[1]), text, False)


def _is_matrix(weight: Any) -> bool:
    """Whether an operand is a constant matrix that numpy concatenates."""
    if not isinstance(weight, GenericConst) or str(weight.ty.dtype) not in DTYPES:
        return False
    return len(weight.ty.shape.values) == 2


def _groups(products: Sequence[_Projection]) -> Iterator[list[_Projection]]:
    """The products that have the first operand in common, two or more."""
    groups: list[list[_Projection]] = []
    for product in products:
        group = next((g for g in groups if g[0].joins(product)), None)
        if group is None:
            groups.append([product])
        else:
            group.append(product)
    yield from (g for g in groups if len(g) > 1)
