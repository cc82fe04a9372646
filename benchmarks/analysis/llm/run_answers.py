"""Run a PrimFunc and the operators that it was read as on the same random inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from benchmarks.analysis.llm.random_arguments import NotRun, chosen_sizes, random_inputs, shape_of
from opinfo.analysis import Chain, Constant, OpInfo, Step
from opinfo.analysis.certify.distinct_indices import DISTINCT
from opinfo.analysis.lifting.parallel.threads import IN_STEP
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.analysis.proposal.call_op import call_op
from opinfo.analysis.terms.term import Var
from tests.analysis.language_models.paged_inputs import kernel_arguments
from tests.common.compose import NotComposed, _sizes, _value
from tests.common.lockstep import execute
from tests.common.run import run
from tests.models.weights import Array

#: Relative errors that rounding explains, by the dtype of the result.
NEAR = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-4, "float64": 1e-9}


def compare(func: Any, chain: Chain, seed: int = 0) -> str | None:
    """Return how the operators of a chain differ from the PrimFunc; None if they agree.

    Args:
        func: The PrimFunc.
        chain: Its chain as a call of `opinfo.analysis.chain.Chains` returns it.
        seed: The seed of the inputs and the sizes.

    Raises:
        NotRun: One of the two cannot be run.
    """
    if all(step.info.certificate.kind == "kernel" for step in chain.steps):
        return _compared(*_kernel(func, chain), func, chain)
    rng = np.random.default_rng(seed)
    sizes = chosen_sizes(func) | _assumed(chain)
    updated = [k for k in chain.inplace_indices if k >= 0]
    count = len(chain.outputs) - len(updated)
    inputs = random_inputs(func, count, sizes, rng)
    if any(_stores_apart(step) for step in chain.steps):
        _make_distinct(inputs, rng)
    in_step = any(IN_STEP in step.info.certificate.assumptions for step in chain.steps)
    try:
        expected = _called(func, sizes, inputs, chain.inplace_indices or (-1,) * count, in_step)
    except Exception as error:  # TVM's errors have no common type
        raise NotRun(f"the PrimFunc is not built: {_line(error)}") from None
    return _compared(expected, sizes, inputs, func, chain)


def _kernel(func: Any, chain: Chain) -> tuple[list[Array], dict[str, int], dict[int, Array | None]]:
    """The results of a kernel of TVM, with the sizes and the inputs."""
    step = chain.steps[0]
    arguments = kernel_arguments(func, step.name, step.operator.operands)  # type: ignore[arg-type]
    buffers = [k for k, p in enumerate(func.params) if is_buffer_var(p)]
    outputs = [k for k in chain.inplace_indices if k >= 0] or buffers[-len(chain.outputs) :]
    after = dict(zip(buffers, execute(func, arguments), strict=True))
    expected = [after[k].astype(str(func.params[k].ty.dtype)) for k in outputs]
    sizes: dict[str, int] = {}
    inputs: dict[int, Array | None] = {}
    for k, (param, value) in enumerate(zip(func.params, arguments, strict=True)):
        if is_buffer_var(param) or "float" in str(param.ty.dtype):
            inputs |= {k: value} if k in step.operator.operands else {}
        else:
            sizes[param.name], inputs[k] = int(value), None
    return expected, sizes, inputs


def _compared(
    expected: list[Array],
    sizes: Mapping[str, int],
    inputs: Mapping[int, Array | None],
    func: Any,
    chain: Chain,
) -> str | None:
    """How the operators of a chain differ from results on these inputs."""
    try:
        built = _composed(func, chain, sizes, inputs)
    except NotComposed as error:
        raise NotRun(str(error)) from None
    actual = run(built, [v for v in inputs.values() if v is not None])
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"result {k} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        if (error := _error(a, b)) > NEAR.get(str(b.dtype), 0):
            return f"result {k} differs by {error:.1e}"
    return None


def _error(a: Array, b: Array) -> float:
    """The largest difference, relative to the largest number."""
    x, y = np.asarray(a, "float64"), np.asarray(b, "float64")
    if not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return float("inf")
    finite = np.isfinite(x)
    scale = max(float(np.abs(y[finite]).max(initial=0)), 1e-6)
    return float(np.abs(x[finite] - y[finite]).max(initial=0)) / scale


def _assumed(chain: Chain) -> dict[str, int]:
    """The sizes for which the operators of a chain are the answer."""
    sizes: dict[str, int] = {}
    for step in chain.steps:
        for text in step.info.certificate.sizes if isinstance(step.info, OpInfo) else ():
            literal = re.fullmatch(r"the size (\S+) is (\d+)", text)
            if literal is None:
                raise NotRun(f"it assumes that {text}")
            sizes[literal[1]] = int(literal[2])
    return sizes


def _stores_apart(step: Step) -> bool:
    """Whether an answer assumes that no two stores are into one element."""
    texts = step.info.certificate.assumptions
    return DISTINCT in texts or any("store in one element" in text for text in texts)


def _make_distinct(inputs: dict[int, Array | None], rng: Any) -> None:
    """Give vectors of indices distinct values, as answers assume of stores there."""
    for k, value in inputs.items():
        if value is not None and value.ndim == 1 and str(value.dtype) in ("int32", "int64"):
            below = int(value.max(initial=0)) + 1
            if len(value) > below:
                raise NotRun("there are fewer rows than indices")
            inputs[k] = rng.permutation(below)[: len(value)].astype(value.dtype)


def _called(
    func: Any,
    sizes: Mapping[str, int],
    inputs: Mapping[int, Array | None],
    inplace_indices: tuple[int, ...],
    in_step: bool,
) -> list[Array]:
    """The results of the compiled PrimFunc, or of the interpreter if threads must run in step."""
    named = serial(func).with_attr("global_symbol", "main").with_attr("tirx.noalias", True)
    if not in_step:
        compiled = tvm.compile(tvm.IRModule({"main": named}), target="llvm")
    given = [
        tvm.runtime.tensor(v) if is_buffer_var(p) else v
        for p, v in zip(func.params, arguments(func, sizes, inputs), strict=True)
    ]
    if in_step:
        arrays = [
            v.numpy() if is_buffer_var(p) else v for p, v in zip(func.params, given, strict=True)
        ]
        after = execute(func, arrays)
        buffers = [k for k, p in enumerate(func.params) if is_buffer_var(p)]
        for place, array in zip(buffers, after, strict=True):
            given[place].copyfrom(array.astype(str(given[place].dtype)))
    else:
        compiled["main"](*given)
    results = [v for k, v in enumerate(given) if k not in inputs]
    new = iter(results)
    return [(given[k] if k >= 0 else next(new)).numpy() for k in inplace_indices]


def arguments(func: Any, sizes: Mapping[str, int], inputs: Mapping[int, Array | None]) -> list[Any]:
    """Return an array for each buffer, zeros for results, and a number for each scalar."""
    given: list[Any] = []
    for k, param in enumerate(func.params):
        value = inputs.get(k)
        if value is not None:
            given.append(value if is_buffer_var(param) else value.item())
        elif k in inputs:
            given.append(sizes[param.name])
        else:
            given.append(np.zeros(shape_of(param, sizes), str(param.ty.dtype)))
    return given


def serial(func: Any) -> Any:
    """Return a PrimFunc with serial loops in place of those that are bound to threads.

    Each loop over threads runs to its end before the next one, as after a barrier.
    """
    graph = json.loads(tvm.ir.save_json(func))
    nodes = graph["nodes"]
    nodes.append({"type": "None"})
    for node in nodes:
        if node["type"] == "tirx.For" and node["data"]["kind"] == _THREAD:
            node["data"] |= {"kind": _SERIAL, "thread_binding": len(nodes) - 1}
    return tvm.ir.load_json(json.dumps(graph))


_SERIAL, _THREAD = int(tirx.ForKind.SERIAL), int(tirx.ForKind.THREAD_BINDING)


def _composed(
    func: Any, chain: Chain, sizes: Mapping[str, int], inputs: Mapping[int, Array | None]
) -> Any:
    """A module whose ``main`` calls the operators of a chain on tensors of these shapes."""
    params = {
        k: relax.Var(f"p{k}", relax.TensorType(list(v.shape), str(v.dtype)))
        for k, v in inputs.items() if v is not None
    }  # fmt: skip
    builder = relax.BlockBuilder()
    results: list[Any] = []
    calls = [_step(step, sizes) for step in chain.steps]
    with builder.function("main", [*params.values()]):
        with builder.dataflow():
            for name, operands, attrs in calls:
                values = [_operand(o, func, params, results, sizes) for o in operands]
                dtype = str(values[0].ty.dtype) if values else "float32"
                results.append(builder.emit(call_op(name, values, attrs, dtype)))
            ends = [builder.emit_output(_value(o, params, results)) for o in chain.outputs]
        builder.emit_func_output(ends[0] if len(ends) == 1 else relax.Tuple(ends))
    return builder.get()


def _step(step: Any, sizes: Mapping[str, int]) -> tuple[str, Any, dict[str, Any]]:
    if not isinstance(step.info, OpInfo) or step.info.relaid:
        raise NotComposed(f"{step.name} in the layouts {step.info.layouts}")
    known: dict[Var, Any] = {
        v: tirx.IntImm("int64", sizes[v.name]) for a in step.attrs.values() for v in _sizes(a)
    }
    return step.name, step.operands, {k: to_prim(v, known) for k, v in step.attrs.items()}


def _operand(
    operand: Any, func: Any, params: Any, results: list[Any], sizes: Mapping[str, int]
) -> Any:
    """The value of an operand; an integer parameter is a constant."""
    if isinstance(operand, int) and not isinstance(operand, Constant) and operand not in params:
        param = func.params[operand]
        return relax.const(sizes[param.name], str(param.ty.dtype))
    return _value(operand, params, results)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[-1][:120]
