"""Build a kernel for one shape: bind, schedule, compile, and compare with the generic kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from ...analysis import Refusal
from ...byoc.codegen.vector_units import machine
from ...byoc.dims.symbolic_dims import bind
from ...byoc.prepare.loops.guard_stores import guarded
from ...byoc.prepare.loops.kept_nan import kept_nan
from ...byoc.schedule import WINOGRAD, Scheduled, schedule
from ..tune.schedule_database import OpenDatabase, scheduled

#: Tolerance relative to the largest value: a schedule may reassociate sums.
WITHIN = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}
#: The name of the function in its library.
ENTRY = "kernel"
#: The rule of a shape that the generic kernel serves as fast as a kernel of its own.
GENERIC = "generic"
#: Timed calls at most and at least, and the seconds after which no further ones are made.
ROUNDS, FEWEST, ENOUGH = 7, 3, 0.02
#: The ratio of times below which two kernels count as equally fast.
NOISE = 1.05
#: After this many shapes that gained nothing, larger shapes are not tried. The generic kernel must
#: take this many seconds: shorter times say nothing.
TRIES, LONG = 2, 2e-5


class ResultsDiffer(RuntimeError):
    """The result of a compiled kernel differs from the generic kernel's."""


@dataclass(frozen=True)
class BuiltKernel:
    """A library with one kernel, the rule of its schedule, and the build time.

    Without a library, the generic kernel serves the shape as fast.
    """

    library: Path | None
    rule: str
    milliseconds: float


class KernelBuilder:
    """Builds kernels of one PrimFunc.

    Args:
        func: The PrimFunc.
        target: TVM's target.
        database: Tuned schedules, which are preferred.
        generic: The kernel that serves all shapes; by default it is compiled when it is needed.
    """

    def __init__(self, func: Any, target: Any, database: OpenDatabase | None = None,
                 generic: Any = None) -> None:  # fmt: skip
        self.func, self.target, self.database = func, target, database
        self._generic = generic
        self._useless: list[int] = []  # sizes at which a kernel of its own gained nothing

    def make(
        self, values: Mapping[str, int], library: Path, check: bool = True, winograd: bool = True
    ) -> BuiltKernel:
        """Compile the function at one shape into a shared library.

        A tuned schedule takes precedence over a rule. If the generic kernel is faster than both,
        no library is written. Minimal filtering is only used if it was compared.

        Raises:
            Differs: The result differs from the generic kernel's.
        """
        start = perf_counter()
        rule, written = GENERIC, None
        if not (check and self._gains_nothing(values)):
            bound = bind(self.func, values)
            for result in self._schedules(bound, check and winograd):
                file, kernel = self._built(*_code(result, bound), library)
                if not check or self._serves(kernel, bound, values, _filtered(result)):
                    file.replace(library)
                    rule, written = _code(result, bound)[1], library
                    break
                file.unlink()
        return BuiltKernel(written, rule, 1e3 * (perf_counter() - start))

    def _schedules(self, bound: Any, winograd: bool) -> Iterator[Scheduled | Refusal]:
        """Yield the schedules to try, the most promising one first."""
        first = scheduled(bound, self.target, self.database, winograd)
        yield first
        if _filtered(first):
            yield scheduled(bound, self.target, self.database)

    def _serves(self, kernel: Any, bound: Any, values: Mapping[str, int], filtered: bool) -> bool:
        """Return whether a kernel is equal to the generic one, and not slower."""
        args = arguments(bound, values)
        try:
            compare(kernel, self.generic, args, values)
        except ResultsDiffer:
            if filtered:  # it rounds otherwise; the direct schedule must not differ
                return False
            raise
        special, generic = seconds(kernel, self.generic, args, self._clock)
        if not filtered and generic >= LONG and generic <= NOISE * special:
            self._useless.append(prod(values.values()))
        return special <= NOISE * generic

    def _gains_nothing(self, values: Mapping[str, int]) -> bool:
        """Return whether smaller shapes gained nothing: what a shape gains shrinks as it grows."""
        size = prod(values.values())
        return self.database is None and sum(s <= size for s in self._useless) >= TRIES

    def _built(self, func: Any, rule: str, library: Path) -> tuple[Path, Any]:
        """Build under a unique file name, because the loader identifies libraries by name."""
        file = library.with_name(f"{library.name}.{rule.partition('+')[0]}.so")
        compiled(func, self.target, ENTRY).export_library(str(file))
        return file, loaded(file)

    @cached_property
    def generic(self) -> Any:
        """The kernel that serves all shapes, which others are compared with."""
        if self._generic is not None:
            return self._generic
        result = schedule(self.func, self.target)
        func = guarded(self.func) if isinstance(result, Refusal) else result.func
        return compiled(func, self.target, GENERIC)[GENERIC]

    @property
    def _clock(self) -> Callable[[], float]:
        """CPU time of this thread where kernels run on it alone: others may use the CPU."""
        cpu = machine(self.target)
        return thread_time if cpu is not None and cpu.cores == 1 else perf_counter


def _code(result: Scheduled | Refusal, bound: Any) -> tuple[Any, str]:
    """Return the function to build, and its rule."""
    return (guarded(bound), "none") if isinstance(result, Refusal) else (result.func, result.rule)


def _filtered(result: Scheduled | Refusal) -> bool:
    return isinstance(result, Scheduled) and WINOGRAD in result.rules


def loaded(library: Path) -> Any:
    """Load the function of a kernel's library, which is unloaded with the function."""
    if not library.is_file():
        raise ValueError(f"kernel library not found: {library}")
    return tvm_ffi.load_module(str(library), keep_module_alive=False)[ENTRY]


def seconds(
    kernel: Any, other: Any, args: Sequence[Any], clock: Callable[[], float]
) -> tuple[float, float]:
    """Return the shortest seconds of a call of each of two kernels, called in turns."""
    tensors = _tensors(args)
    times: tuple[list[float], list[float]] = ([], [])
    for k in range(ROUNDS):
        if k >= FEWEST and sum(map(sum, times)) > ENOUGH:
            break
        for call, taken in zip((kernel, other), times, strict=True):
            start = clock()
            call(*tensors)
            taken.append(clock() - start)
    return min(times[0]), min(times[1])


def compiled(func: Any, target: Any, name: str) -> Any:
    """Compile a PrimFunc for this process."""
    func = func.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    return tvm.tirx.build(kept_nan(tvm.IRModule({name: func})), target=target)


def compare(kernel: Any, generic: Any, args: Sequence[Any], values: Mapping[str, int]) -> None:
    """Compare two kernels on the same `arguments`; raises `ResultsDiffer` if an output does."""
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


def _tensors(args: Sequence[Any]) -> list[Any]:
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
        raise ResultsDiffer(f"parameter {k} differs from the generic kernel's at {dict(values)}")
