"""A chain of operators as a Relax module that computes it: the oracle of `op_infos`."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Chain, Constant, OpInfo, StepResult
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.analysis.proposal.call_op import call_op
from opinfo.analysis.terms.term import Int, Var
from opinfo.analysis.terms.traversal import free
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array


class NotComposed(Exception):
    """The chain has a step without a Relax constructor for its layouts."""


def compose(func: tvm.tirx.PrimFunc, chain: Chain) -> tvm.IRModule:
    """`main` over the PrimFunc's inputs, which calls the operators of the chain in order."""
    buffers = [p for p in func.params if is_buffer_var(p)]
    inputs = buffers[: len(buffers) - len(chain.outputs)]
    params = {
        k: relax.Var(f"p{k}", relax.TensorType(list(p.ty.shape), str(p.ty.dtype)))
        for k, p in enumerate(func.params)
        if any(p.same_as(b) for b in inputs)
    }
    sizes = [v for p in func.params for v in ([p] if not is_buffer_var(p) else p.ty.shape)]
    named = {v.name: v for v in sizes if type(v).__name__ == "Var"}
    builder = relax.BlockBuilder()
    extra = relax.Var("sizes", relax.ShapeType([*named.values()]))
    results: list[Any] = []
    with builder.function("main", [*params.values(), *([extra] if named else [])]):
        with builder.dataflow():
            for step in chain.steps:
                if not isinstance(step.info, OpInfo) or step.info.relaid:
                    raise NotComposed(f"{step.name} in the layouts {step.info.layouts}")
                operands = [_value(o, params, results) for o in step.operands]
                known = {v: named[v.name] for a in step.attrs.values() for v in _sizes(a)}
                attrs = {k: to_prim(v, known) for k, v in step.attrs.items()}
                first = next((o for o in operands), None)
                dtype = "float32" if first is None else str(first.ty.dtype)
                results.append(builder.emit(call_op(step.name, operands, attrs, dtype)))
            ends = [builder.emit_output(_value(o, params, results)) for o in chain.outputs]
        builder.emit_func_output(ends[0] if len(ends) == 1 else relax.Tuple(ends))
    return builder.get()


def _value(o: Any, params: dict[int, Any], results: list[Any]) -> Any:
    if isinstance(o, Constant):
        return relax.const(o.value, o.dtype)
    if not isinstance(o, StepResult):
        return params[o]
    found = results[o.step]
    return relax.TupleGetItem(found, o.output) if hasattr(found.ty, "fields") else found


def _sizes(value: Any) -> frozenset[Var]:
    if isinstance(value, Int):
        return free(value)
    if isinstance(value, (tuple, list)):
        return frozenset().union(*map(_sizes, value))
    return frozenset()


def operands(func: tvm.tirx.PrimFunc, outputs: int, size: int = 2, seed: int = 0) -> list[Array]:
    """Seeded inputs for a PrimFunc; symbolic extents are `size`, floats are positive."""
    rng = np.random.default_rng(seed)
    values = []
    buffers = [p for p in func.params if is_buffer_var(p)]
    for p in buffers[: len(buffers) - outputs]:
        shape = [getattr(e, "value", size) for e in p.ty.shape]
        dtype = str(p.ty.dtype)
        if dtype == "bool" or "int" in dtype:
            values.append(rng.integers(0, 2, shape).astype(dtype))
        else:
            values.append(rng.uniform(0.1, 1, shape).astype(dtype))
    return values


def differs(func: tvm.tirx.PrimFunc, chain: Chain, size: int = 2) -> float:
    """The largest relative difference between the composed operators and the PrimFunc."""
    from tests.common.run import run

    composed = compose(func, chain)
    values: list[Any] = [*operands(func, len(chain.outputs), size)]
    expected = call(func, values, len(chain.outputs), size)
    if len(composed["main"].params) > len(values):
        values.append(tvm.runtime.ShapeTuple([size] * len(composed["main"].params[-1].ty.values)))
    worst = 0.0
    for a, b in zip(run(composed, values), expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        x, y = np.asarray(a, "float64"), np.asarray(b, "float64")
        assert np.isfinite(x).all()
        scale = max(float(np.abs(x).max(initial=0)), 1e-30)
        worst = max(worst, float(np.abs(x - y).max(initial=0)) / scale)
    return worst


def call(func: tvm.tirx.PrimFunc, values: list[Array], outputs: int, size: int = 2) -> list[Array]:
    """The outputs of a compiled PrimFunc."""
    compiled = unoptimised(tvm.IRModule({"fused": func.with_attr("global_symbol", "fused")}))
    buffers = [p for p in func.params if is_buffer_var(p)]
    given, inputs, results = [], iter(values), []
    for p in func.params:
        if not is_buffer_var(p):
            given.append(size)
        elif any(p.same_as(b) for b in buffers[-outputs:]):
            shape = [getattr(e, "value", size) for e in p.ty.shape]
            results.append(tvm.runtime.tensor(np.zeros(shape, str(p.ty.dtype))))
            given.append(results[-1])
        else:
            given.append(tvm.runtime.tensor(next(inputs)))
    compiled["fused"](*given)
    return [r.numpy() for r in results]
