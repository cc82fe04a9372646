"""Raise kernels whose blocks walk over tiles of groups of rows to products with gathered matrices.

    Before: y = R.call_tir(cls.group_gemm, (x, words, scales, starts))
    After:  ids = R.sum(starts[1:-1] - starts[0] <= row, axis=[1])          for each row
            w = R.nn.group_dequantize(R.take(words, ids, 0), R.take(scales, ids, 0), …)
            y = R.einsum((x, w), "rk,rnk->rn")

`opinfo.analysis.groups` says what such a kernel does with one group, and what that assumes. All
steps of it must be proved, with one change: a product of halves that is added in float32 is not
rounded before. The result has no defined rows behind the last group, as that of the kernel.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax, tirx

from ....analysis.chain import Chains
from ....analysis.chain.chain_result import Chain, Step, StepResult
from ....analysis.composites.grouped import DEQUANTIZE
from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....analysis.groups.tile_walk import Groups, groups_of
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.proposal.attribute_values import to_prim
from ....analysis.proposal.call_op import call_op
from ....analysis.proposal.proposal import Constant
from ....analysis.results.op_info import OpInfo, Refusal
from ....analysis.support.ir.call_ops import is_call_tir
from ....layout.graph.unused import without_unused
from .raise_ops import STRENGTH, same_type

#: The axes of a matrix, which are one further in a batch of matrices.
AXES = ("axis", "packed_axis", "zero_points_axis")
PRODUCTS = ("relax.matmul", TRANSPOSED_MATMUL)
CAST = "relax.astype"


@tvm_ffi.register_error
class NotGrouped(ValueError):
    """Why the steps for one group are not raised."""


def raise_groups(mod: Any) -> Any:
    """The module with such calls raised; the input is not changed, and returned if it has none."""
    walks = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc) and _has_while(f)]
    if not walks:
        return mod
    raiser = _Raiser(mod)
    for gvar, func in list(mod.functions_items()):
        if isinstance(func, relax.Function):
            raiser.builder_.update_func(gvar, raiser.visit_expr(func))
    return without_unused(raiser.builder_.get(), mod) if raiser.count else mod


def grouped_product(func: Any, chains: Chains | None = None) -> tuple[Groups, Chain] | Refusal:
    """A kernel's product of each group of rows, of which all steps are proved, or why it is none.

    Args:
        func: The PrimFunc.
        chains: What is known of other PrimFuncs.
    """
    groups = groups_of(func)
    if isinstance(groups, Refusal):
        return groups
    chain = (chains or Chains())(_unrounded(groups.func))
    if not isinstance(chain, Chain):
        return chain
    proved = all(isinstance(s.info, OpInfo) for s in chain.steps) and all(
        STRENGTH[s.info.certificate.kind] >= STRENGTH["proved"] for s in chain.steps)  # fmt: skip
    if not proved or chain.outputs != (StepResult(len(chain.steps) - 1),):
        return Refusal(f"not all steps for a group are proved: {', '.join(chain.names)}")
    if sum(s.name in PRODUCTS for s in chain.steps) != 1:
        return Refusal(f"the steps for a group are {', '.join(chain.names)}, expected one product")
    return groups, chain


@relax.expr_functor.mutator
class _Raiser(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls of such kernels."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod, self.count = mod, 0
        self.chains, self.known = Chains(), NodeDict[Any]()

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call) or not hasattr(call.ty, "dtype"):
            return call
        func = self.mod[call.args[0]]
        if not isinstance(func, tirx.PrimFunc) or not _has_while(func):
            return call
        if func not in self.known:
            self.known[func] = grouped_product(func, self.chains)
        if isinstance(self.known[func], Refusal):
            return call
        groups, chain = self.known[func]
        try:
            new = _Emitter(self.builder_, groups, items(call.args[1].fields)).emitted(chain)
        except NotGrouped:
            return call
        if not same_type(new.ty, call.ty):
            return call
        self.count += 1
        return new


class _Emitter:
    """Emits the operators of one kernel; the last one is returned and not bound."""

    def __init__(self, builder: Any, groups: Groups, arguments: list[Any]) -> None:
        self.builder, self.groups, self.arguments = builder, groups, arguments
        kept = [k for k in range(len(arguments) + 1) if k != groups.starts]
        self.positions = kept  # in the kernel, of the parameters for one group
        self.values: list[tuple[Any, bool]] = []  # of steps: whether there is one for each row

    def emitted(self, chain: Chain) -> Any:
        rows = next((k for k in self.groups.rows if k < len(self.arguments)), None)
        if rows is None or self.groups.starts >= len(self.arguments):
            raise NotGrouped("the kernel reads no rows")
        self.ids = self._ids(self.arguments[rows].ty.shape[0])
        for k, step in enumerate(chain.steps):
            new, gathered = self._step(step)
            new = self.builder.normalize(new)
            self.values.append((self.builder.emit(new) if k + 1 < len(chain.steps) else new,
                                gathered))  # fmt: skip
        return self.values[-1][0]

    def _ids(self, rows: Any) -> Any:
        """The group of each row: how many of the groups behind the first begin at it or before."""
        op, emit = relax.op, self.builder.emit
        starts = self.arguments[self.groups.starts]
        dtype, count = str(starts.ty.dtype), self.groups.count
        first = emit(op.strided_slice(starts, [0], [0], [1]))
        others = emit(op.strided_slice(starts, [0], [1], [count]))
        begins = emit(op.subtract(others, first))
        number = emit(op.expand_dims(emit(op.arange(0, rows, 1, dtype)), [1]))
        begun = emit(op.less_equal(begins, number))
        return emit(op.sum(emit(op.astype(begun, dtype)), axis=[1]))

    def _step(self, step: Step) -> tuple[Any, bool]:
        """An operator, and whether its result is a matrix for each row."""
        values = [self._value(step.buffers[o] if not isinstance(o, Constant) else o)
                  for o in step.operator.operands]  # fmt: skip
        attrs = {n: to_prim(v, {}) for n, v in step.attrs.items()}
        operands, gathered = [v for v, _ in values], [g for _, g in values]
        if step.name == DEQUANTIZE and all(gathered):
            attrs |= {n: int(attrs[n]) % 2 + 1 for n in AXES if attrs.get(n) is not None}
        elif step.name in PRODUCTS and gathered == [False, True]:
            return self._product(operands, attrs), False
        elif step.name != CAST:
            raise NotGrouped(f"{step.name} of gathered values")
        return call_op(step.name, operands, attrs, str(operands[0].ty.dtype)), gathered[0]

    def _value(self, of: Any) -> tuple[Any, bool]:
        if isinstance(of, StepResult):
            return self.values[of.step]
        if isinstance(of, Constant) or self.positions[of] >= len(self.arguments):
            raise NotGrouped("an operand is a literal or an output")
        position = self.positions[of]
        argument = self.arguments[position]
        if position in self.groups.batches:
            return self.builder.emit(relax.op.take(argument, self.ids, 0, mode="clip")), True
        if position not in self.groups.rows:
            raise NotGrouped("an operand is shared by all groups")
        return argument, False

    def _product(self, operands: list[Any], attrs: dict[str, Any]) -> Any:
        first, second = attrs.get("transposed") or (False, False)
        rows, matrices = operands
        if first or rows.ty.ndim != 2 or matrices.ty.ndim != 3:
            raise NotGrouped("a product that is not of rows and a matrix")
        dtype = str(attrs.get("out_dtype") or "")
        if dtype not in ("", "void", "None", str(rows.ty.dtype)):
            rows, matrices = (self.builder.emit(relax.op.astype(v, dtype)) for v in operands)
        return relax.op.einsum((rows, matrices), "rk,rnk->rn" if second else "rk,rkn->rn")


def _unrounded(func: Any) -> Any:
    """The PrimFunc with products of halves that are cast to float32 as products of float32."""

    def cast(node: Any) -> Any:
        value = node.value
        halves = isinstance(value, tirx.Mul) and str(value.ty.dtype) == "float16"
        if not halves or str(node.ty.dtype) != "float32":
            return node
        return tirx.Mul(tirx.Cast("float32", value.a), tirx.Cast("float32", value.b))

    return tvm_ffi.structural_map(func, (tirx.Cast, cast))


def _has_while(func: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.While, found.append))
    return bool(found)
