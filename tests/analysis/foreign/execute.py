"""Execute a program and an operator on the same numbers: the oracle of expectations and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import Constant
from opinfo.analysis.proposal.call_op import bind_arguments
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.testing.rebuild import variables
from opinfo.testing.unoptimised import unoptimised

from ...common.lockstep import execute
from ...common.run import run

Array = npt.NDArray[Any]
SIZES = (6, 4, 3)
TOLERANCES = {"float16": 2e-2, "float32": 2e-4}


def difference(
    func: Any,
    name: str,
    attrs: Mapping[str, Any],
    operands: Sequence[int | Constant] | None,
    threads: bool | None = None,
) -> str:
    """Return where an operator's results differ from a PrimFunc's on random numbers, or ''.

    Outputs are the last parameters. `threads` says whether to interpret the function in lockstep.
    """
    sizes = _sizes(func)
    shapes = [[int(_number(d, sizes)) for d in p.ty.shape] for p in func.params]
    dtypes = [str(p.ty.dtype) for p in func.params]
    written = _written(func)
    inputs = [k for k in range(len(shapes)) if k not in written]
    rng = np.random.default_rng(7)
    arrays = [_random(rng, s, d, func) for s, d in zip(shapes, dtypes, strict=True)]
    used = tuple(inputs) if operands is None else tuple(operands)
    expected = _operator(name, attrs, used, shapes, dtypes, arrays, sizes)
    text = func.script()
    lockstep = "thread_binding" in text or "launch_thread" in text if threads is None else threads
    results = (execute if lockstep else _compiled)(func, arrays)
    for k, value in zip(written, expected, strict=True):
        got = np.asarray(results[k], np.float64)
        want = np.asarray(value, np.float64)
        allowed = TOLERANCES.get(dtypes[k], 0)
        if got.shape != want.shape:
            return f"%{k} has shape {got.shape}, not {want.shape}"
        if not np.allclose(got, want, rtol=allowed, atol=allowed, equal_nan=True):
            return f"%{k} differs by {np.nanmax(np.abs(got - want))}"
    return ""


def _compiled(func: Any, arrays: list[Array]) -> list[Array]:
    kernel = unoptimised(func.with_attr("global_symbol", "main"))
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    kernel["main"](*tensors)
    return [t.numpy() for t in tensors]


def _operator(
    name: str,
    attrs: Mapping[str, Any],
    operands: Sequence[int | Constant],
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[str],
    arrays: Sequence[Array],
    sizes: Mapping[Any, int],
) -> list[Array]:
    read = list(dict.fromkeys(o for o in operands if isinstance(o, int)))
    params = {k: relax.Var(f"p{k}", relax.TensorType(list(shapes[k]), dtypes[k])) for k in read}
    given = {k: _plain(v, sizes) for k, v in attrs.items()}
    builder = relax.BlockBuilder()
    with builder.function("main", list(params.values())):
        call = constructor_of(name)(**bind_arguments(name, operands, given, params))
        builder.emit_func_output(builder.emit(call))
    return run(builder.get(), [arrays[k] for k in read])


def _plain(value: Any, sizes: Mapping[Any, int]) -> Any:
    """An attribute without variables."""
    if isinstance(value, (tuple, list)):
        return [_plain(v, sizes) for v in value]
    if isinstance(value, tirx.IndexMap) or not isinstance(value, tvm_ffi.Object):
        return value
    if type(getattr(value, "ty", None)).__name__ != "PrimType" or hasattr(value, "value"):
        return value
    return int(_number(value, sizes))


def _number(value: Any, sizes: Mapping[Any, int]) -> Any:
    analyzer = tvm.sym.Analyzer()
    for variable, size in sizes.items():
        analyzer.bind(variable, tirx.const(size, str(variable.ty.dtype)))
    return analyzer.simplify(value).value


def _sizes(func: Any) -> dict[Any, int]:
    return dict(zip(variables(func), SIZES, strict=False))


def _written(func: Any) -> list[int]:
    """The parameters that are stored to; the last one if the stores are to views of it."""
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, lambda s: stores.append(s.buffer)))
    params = list(enumerate(func.params))
    return [k for k, p in params if any(p.same_as(b) for b in stores)] or [len(params) - 1]


def _random(rng: np.random.Generator, shape: Sequence[int], dtype: str, func: Any) -> Array:
    """Numbers around zero; small indices for int32, all values for narrow integers."""
    if "float" in dtype:
        return (2 * rng.standard_normal(shape)).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in ("int32", "int64"):
        return rng.integers(0, 3, shape).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, endpoint=True, dtype=dtype)
