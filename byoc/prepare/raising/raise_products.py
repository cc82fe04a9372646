"""Raise products with weights of few bits that were lowered with permuted operands, or fused.

    Before: y = R.call_tir(cls.fused_dequantize_NT_matmul_add, (words, scale, x, z))
    After:  w = R.nn.group_dequantize(words, scale, …)
            y = R.add(R.matmul(x, R.permute_dims(w)), z)

If a module dequantises by group, or has loops over threads that nobody has scheduled, a call is
raised if opinfo proves all steps of its PrimFunc, and these contain a dequantisation by group, or a
product whose operands may have permuted axes.
Patterns of backends match operators, not chains; TVM fuses again what no backend takes.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import relax, tirx

from ....analysis.chain import Chains
from ....analysis.chain.chain_result import Chain, Step, StepResult
from ....analysis.composites.grouped import DEQUANTIZE
from ....analysis.composites.products import TRANSPOSED_MATMUL
from ....analysis.lifting.tir.node import NodeDict, items
from ....analysis.proposal.attribute_values import to_prim
from ....analysis.proposal.call_op import NotBuilt, call_op
from ....analysis.proposal.proposal import Constant
from ....analysis.results.buffer_layout import BufferLayout
from ....analysis.results.op_info import LayoutNormalised, OpInfo, Refusal
from ....analysis.support.ir.call_ops import is_call_tir
from ....analysis.support.ir.rewrite_functions import rewrite_functions
from ....layout.graph.call_extents import unequal_extents
from ....layout.graph.unused import without_unused
from ..mutation.mutate import named
from .raise_ops import STRENGTH, call_sizes, same_type

#: Dtypes of words.
WORDS = frozenset({"uint32", "uint16", "uint8", "int8"})
PRODUCTS = frozenset({"relax.matmul", "relax.einsum", TRANSPOSED_MATMUL})


def raise_products(mod: Any) -> Any:
    """The module with such calls raised; the input is not changed, and returned if it has none."""
    if not may_dequantize(mod) and not any(map(_has_threads, mod.functions.values())):
        return mod
    raiser = _Raiser(mod)
    out = rewrite_functions(mod, raiser)
    return without_unused(out, mod) if raiser.count else mod


def dequantizes(mod: Any) -> bool:
    """Whether a Relax function calls the operator that dequantises by group."""
    found: list[Any] = []

    def visit(call: Any) -> None:
        if named(call, DEQUANTIZE):
            found.append(call)

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            tvm_ffi.structural_walk(func, (relax.Call, visit))
    return bool(found)


def may_dequantize(mod: Any) -> bool:
    """Whether a module dequantises by group, or has a PrimFunc that may."""
    funcs = (f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    return dequantizes(mod) or any(map(_has_words, funcs))


@relax.expr_functor.mutator
class _Raiser(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces calls by products with permuted operands and what surrounds them."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.mod, self.count = mod, 0
        self.chains, self.known = Chains(), NodeDict[Chain | Refusal]()

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not is_call_tir(call) or not hasattr(call.ty, "dtype"):
            return call
        func = self.mod[call.args[0]]
        if not isinstance(func, tirx.PrimFunc):
            return call
        if func not in self.known:
            self.known[func] = self.chains(func)
        chain = self.known[func]
        if not isinstance(chain, Chain) or not _is_product(chain) or unequal_extents(func, call):
            return call
        try:
            new = self.builder_.normalize(self.raised(chain, call))
        except (NotBuilt, ValueError):
            return call
        if not same_type(new.ty, call.ty):
            return call
        self.count += 1
        return new

    def raised(self, chain: Chain, call: Any) -> Any:
        """The operators of a chain, of which the last one is returned and not bound."""
        arguments = items(call.args[1].fields)
        sizes = call_sizes(chain.params, arguments, call)
        results: list[Any] = []

        def value(of: Any) -> Any:
            if isinstance(of, StepResult):
                return results[of.step]
            if of >= len(arguments):
                raise NotBuilt("an operand is an output of the PrimFunc")
            return arguments[of]

        for k, step in enumerate(chain.steps):
            layouts = step.info.buffers if isinstance(step.info, LayoutNormalised) else None
            operands = []
            for operand in step.operator.operands:
                if isinstance(operand, Constant):
                    operands.append(relax.const(operand.value, operand.dtype))
                    continue
                physical = value(step.buffers[operand])
                layout = None if layouts is None else layouts[operand]
                operands.append(self.logical(physical, layout))
            attrs = {n: to_prim(v, sizes) for n, v in step.attrs.items()}
            first = next((o for o in operands if hasattr(o.ty, "dtype")), None)
            dtype = str(first.ty.dtype) if first is not None else "float32"
            new = self.builder_.normalize(call_op(step.operator.name, operands, attrs, dtype))
            if layouts is not None:
                new = self.physical(new, layouts[len(step.buffers) - 1])
            results.append(self.builder_.emit(new) if k + 1 < len(chain.steps) else new)
        return results[-1]

    def logical(self, tensor: Any, layout: BufferLayout | None) -> Any:
        """The tensor that a buffer holds in this layout."""
        if layout is None or layout.identity:
            return tensor
        places = _places(layout)
        units = [k for k, axis in enumerate(places) if axis is None]
        if units:
            tensor = self.builder_.emit(relax.op.squeeze(tensor, units))
        order = [axis for axis in places if axis is not None]
        if order == sorted(order):
            return tensor
        inverse = [order.index(k) for k in sorted(order)]
        return self.builder_.emit(relax.op.permute_dims(tensor, inverse))

    def physical(self, tensor: Any, layout: BufferLayout | None) -> Any:
        """The buffer that holds a tensor in this layout."""
        if layout is None or layout.identity:
            return tensor
        places = _places(layout)
        order = [axis for axis in places if axis is not None]
        if order != sorted(order):
            tensor = self.builder_.normalize(relax.op.permute_dims(tensor, order))
        units = [k for k, axis in enumerate(places) if axis is None]
        if units:
            bound = tensor if isinstance(tensor, relax.Var) else self.builder_.emit(tensor)
            tensor = self.builder_.normalize(relax.op.expand_dims(bound, units))
        return tensor


def _places(layout: BufferLayout) -> list[int | None]:
    """The logical axis at each physical one, None for an added axis of extent 1.

    Raises `NotBuilt` for other layouts.
    """
    axes: list[Any] = list(layout.index_map.initial_indices)
    out: list[int | None] = []
    for index in layout.index_map.final_indices:
        if isinstance(index, tirx.IntImm) and int(index.value) == 0:
            out.append(None)
            continue
        axis = next((k for k, a in enumerate(axes) if index.same_as(a)), None)
        if axis is None or axis in out:
            raise NotBuilt(f"the layout {layout.text} is not a permutation of axes")
        out.append(axis)
    if layout.padded or len([axis for axis in out if axis is not None]) != len(axes):
        raise NotBuilt(f"the layout {layout.text} is not a permutation of axes")
    return out


def _is_product(chain: Chain) -> bool:
    """Whether a chain is worth raising, and all of it can be."""
    if len(chain.outputs) != 1 or chain.outputs[0] != StepResult(len(chain.steps) - 1):
        return False
    if any(STRENGTH[s.info.certificate.kind] < STRENGTH["proved"] for s in chain.steps):
        return False
    names = [s.operator.name for s in chain.steps]
    raisable = all(isinstance(s.info, OpInfo) or s.operator.name in PRODUCTS for s in chain.steps)
    single = len(names) == 1 and isinstance(chain.steps[0].info, OpInfo)
    useful = DEQUANTIZE in names or not PRODUCTS.isdisjoint(names)
    return raisable and useful and not single and all(map(_has_one_result, chain.steps))


def _has_one_result(step: Step) -> bool:
    results = [b for b in step.buffers if isinstance(b, StepResult)]
    return all(b.output == 0 for b in results)


def _has_threads(func: Any) -> bool:
    """Whether a PrimFunc is written for threads, as products with experts are, but not scheduled.

    A CPU has none, and schedules for a GPU expect other loops.
    """
    if not isinstance(func, tirx.PrimFunc) or (func.attrs or {}).get("tirx.is_scheduled", False):
        return False
    found: list[Any] = []

    def visit(node: Any) -> None:
        if node.thread_binding is not None:
            found.append(node)

    tvm_ffi.structural_walk(func.body, (tirx.For, visit))
    return bool(found)


def _has_words(func: Any) -> bool:
    """Whether a parameter has a dtype of words."""
    return any(str(getattr(getattr(p, "ty", None), "dtype", "")) in WORDS for p in func.params)
