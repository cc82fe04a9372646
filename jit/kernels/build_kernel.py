"""Build a kernel for one shape: bind, schedule, compile, and compare with the generic kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from ...analysis import Refusal
from ..dims.symbolic_dims import bind, copied
from ..schedule import schedule
from ..tune.schedule_database import OpenDatabase, scheduled

#: Tolerance relative to the largest value: a schedule may reassociate sums.
WITHIN = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}
#: The name of the function in its library.
ENTRY = "kernel"
#: Timed calls, and the ratio of times below which two kernels count as equally fast.
ROUNDS, NOISE = 7, 1.05


class Differs(RuntimeError):
    """The result of a compiled kernel differs from the generic kernel's."""


@dataclass(frozen=True)
class BuiltKernel:
    """A library with one kernel, the rule of its schedule, and the build time."""

    library: Path
    rule: str
    milliseconds: float


class KernelBuilder:
    """Builds kernels of one PrimFunc; the kernels to compare with are compiled once."""

    def __init__(self, func: Any, target: Any, database: OpenDatabase | None = None) -> None:
        self.func, self.target, self.database = func, target, database

    def make(self, values: Mapping[str, int], library: Path, check: bool = True) -> BuiltKernel:
        """Compile the function at one shape into a shared library.

        A tuned schedule takes precedence over a rule. If the generic schedule is faster than both,
        it is used with its shape bound.

        Raises:
            Differs: The result differs from the unscheduled function's.
        """
        start = perf_counter()
        bound = bind(self.func, values)
        result = scheduled(bound, self.target, self.database)
        rule, func = ("none", bound) if isinstance(result, Refusal) else (result.rule, result.func)
        file, kernel = self._built(func, library, "special")
        if check and self.symbolic is not None and slower(kernel, self.symbolic[1], bound, values):
            file.unlink()
            rule = "generic"
            file, kernel = self._built(bind(self.symbolic[0], values), library, rule)
        if check:
            compare(kernel, self.plain, self.func, values)
        file.replace(library)
        return BuiltKernel(library, rule, 1e3 * (perf_counter() - start))

    def _built(self, func: Any, library: Path, name: str) -> tuple[Path, Any]:
        """Build under a unique file name, because the loader identifies libraries by name."""
        file = library.with_name(f"{library.name}.{name}.so")
        compiled(func, self.target, ENTRY).export_library(str(file))
        return file, loaded(file)

    @cached_property
    def plain(self) -> Any:
        """The unscheduled function, compiled: the reference result."""
        return compiled(self.func, self.target, "plain")["plain"]

    @cached_property
    def symbolic(self) -> tuple[Any, Any] | None:
        """The function with its generic schedule, and compiled; None without a schedule."""
        result = schedule(self.func, self.target)
        if isinstance(result, Refusal):
            return None
        return result.func, compiled(result.func, self.target, "symbolic")["symbolic"]


def loaded(library: Path) -> Any:
    """Load the function of a kernel's library, which is unloaded with the function."""
    if not library.is_file():
        raise ValueError(f"kernel library not found: {library}")
    return tvm_ffi.load_module(str(library), keep_module_alive=False)[ENTRY]


def slower(kernel: Any, baseline: Any, bound: Any, values: Mapping[str, int]) -> bool:
    """Return whether a kernel is slower than another at one shape, beyond noise."""
    args = _tensors(arguments(bound, values))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, seconds in zip((kernel, baseline), times, strict=True):
            start = perf_counter()
            call(*args)
            seconds.append(perf_counter() - start)
    return min(times[0]) > NOISE * min(times[1])


def compiled(func: Any, target: Any, name: str) -> Any:
    """Compile a PrimFunc for this process."""
    func = func.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    return tvm.tirx.build(tvm.IRModule({name: func}), target=target)


def compare(kernel: Any, generic: Any, func: Any, values: Mapping[str, int], seed: int = 0) -> None:
    """Compare two kernels on random inputs at one shape; raises `Differs` if an output does."""
    bound = bind(copied(func), values)
    args = arguments(bound, values, seed)
    actual, expected = _tensors(args), _tensors(args)
    kernel(*actual)
    generic(*expected)
    for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
        if not isinstance(a, int):
            _same(a.numpy(), b.numpy(), k, values)


def arguments(bound: Any, values: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Return random arguments of a static function.

    Integers are 0 if data determines an index, because every index must be in bounds.
    """
    rng, most = np.random.default_rng(seed), 0 if indexed_by_data(bound) else 2
    return [_random(p, rng, values, most) for p in bound.params]


def _tensors(args: list[Any]) -> list[Any]:
    """Copy arrays to tensors; keep numbers."""
    return [tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in args]


def indexed_by_data(func: Any) -> bool:
    """Return whether an index may depend on data; a named integer that reads data counts."""
    loads: list[Any] = []

    def search(expr: Any) -> None:
        tvm_ffi.structural_walk(expr, (tvm.ir.TensorLoad, loads.append))

    def named(node: Any) -> None:
        if str(node.var.ty.dtype).startswith(("int", "uint")):
            search(node.value)

    def indices(node: Any) -> None:
        for index in node.indices:
            search(index)

    tvm_ffi.structural_walk(func.body, [(tvm.ir.TensorLoad, indices), (tirx.BufferStore, indices),
                                        (tirx.Bind, named), (tirx.Let, named)])  # fmt: skip
    return bool(loads)


def _random(param: Any, rng: np.random.Generator, values: Mapping[str, int], most: int) -> Any:
    if not tirx.is_buffer_var(param):
        return values.get(param.name, 1)
    shape = [int(e) for e in param.ty.shape]
    dtype = str(param.ty.dtype)
    if dtype in WITHIN:
        return rng.standard_normal(shape).astype(np.float32).astype(_numpy(dtype))
    low = -most if dtype.startswith("int") else 0
    return rng.integers(low, max(most, 1), shape).astype(dtype)


def _numpy(dtype: str) -> Any:
    if dtype == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(dtype)


def _same(a: np.ndarray, b: np.ndarray, k: int, values: Mapping[str, int]) -> None:
    within = WITHIN.get(str(a.dtype), 0)
    wide = np.float64 if within else a.dtype
    a, b = a.astype(wide), b.astype(wide)
    finite = np.isfinite(b)
    largest = float(np.abs(b[finite]).max(initial=0))
    same = np.where(finite, np.isfinite(a), True)
    with np.errstate(invalid="ignore"):
        close = np.abs(a - b) <= within * largest if within else a == b
    if not np.all(np.where(finite, same & close, (a == b) | (np.isnan(a) & np.isnan(b)))):
        raise Differs(f"parameter {k} differs from the generic kernel's at {dict(values)}")
