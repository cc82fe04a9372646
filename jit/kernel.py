"""One kernel at one shape: bound, scheduled, built into a library, compared with the generic."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from ..analysis import Refusal
from .dims import bind, copied
from .tuned import Known, scheduled

#: What a float may differ by from the generic kernel's, relative to the largest value: sums are
#: made in another order.
WITHIN = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}
#: The name of the function in its library.
ENTRY = "kernel"


class Differs(RuntimeError):
    """A compiled kernel gives another result than the generic one."""


@dataclass(frozen=True)
class Built:
    """A library with one kernel: by which rule it is scheduled, and what it took."""

    library: Path
    rule: str
    milliseconds: float


def build(func: Any, values: Mapping[str, int], target: Any, library: Path,
          known: Known | None = None) -> Built:  # fmt: skip
    """Compile a PrimFunc at one shape into a shared library; `func` is not changed.

    A schedule that is ``known`` from tuning goes before those by structure.
    """
    start = time.perf_counter()
    bound = bind(func, values)
    done = scheduled(bound, target, known)
    rule, made = ("none", bound) if isinstance(done, Refusal) else (done.rule, done.func)
    compiled(made, target, ENTRY).export_library(str(library))
    return Built(library, rule, 1e3 * (time.perf_counter() - start))


def compiled(func: Any, target: Any, name: str) -> Any:
    """A PrimFunc as an executable in this process."""
    func = func.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    return tvm.tirx.build(tvm.IRModule({name: func}), target=target)


def compare(kernel: Any, generic: Any, func: Any, values: Mapping[str, int], seed: int = 0) -> None:
    """Call both on random inputs at one shape; raises :class:`Differs` where an output does."""
    bound = bind(copied(func), values)
    rng = np.random.default_rng(seed)
    given = [_random(p, rng, values) for p in bound.params]
    one, other = ([tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in given]
                  for _ in range(2))  # fmt: skip
    kernel(*one)
    generic(*other)
    for k, (a, b) in enumerate(zip(one, other, strict=True)):
        if not isinstance(a, int):
            _same(a.numpy(), b.numpy(), k, values)


def _random(param: Any, rng: np.random.Generator, values: Mapping[str, int]) -> Any:
    """An argument. Integers are 0 or 1, so that they index what they index."""
    if not tirx.is_buffer_var(param):
        return values.get(param.name, 1)
    shape = [int(e) for e in param.ty.shape]
    dtype = str(param.ty.dtype)
    if dtype in WITHIN:
        return rng.standard_normal(shape).astype(np.float32).astype(_numpy(dtype))
    return rng.integers(0, 2, shape).astype(dtype)


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
        near = np.abs(a - b) <= within * largest if within else a == b
    if not np.all(np.where(finite, same & near, (a == b) | (np.isnan(a) & np.isnan(b)))):
        raise Differs(f"parameter {k} differs from the generic kernel's at {dict(values)}")
