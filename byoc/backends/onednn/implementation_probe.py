"""Which implementations oneDNN has for a region, as a program that runs apart answers.

The program is linked with the object that reads recipes in libraries, so both create the same
primitives. It is linked once for each version of oneDNN, and kept in the user's cache.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tvm_ffi

from ....analysis.support.warn import warn
from ...backend.region import Region, Tensor
from ...codegen.compilers.toolchain import CompilerError, program
from ...patterns.extents.symbolic_shapes import same
from ...patterns.failure import one_line
from ...process.line_process import LineProcess, ProcessDied
from ..common.kept_file import kept_file
from ..common.region_source import Constants, ints
from .locate import available, options
from .recipes.conv import CONV, CONV_TRANSPOSE
from .recipes.converters import recipe_of
from .recipes.recipe import NotInPlace
from .recipes.source import DTYPES, OneDnnFunction, rows_of
from .runtime_object import object_key, runtime_objects

#: The program's source.
MAIN = """extern "C" int opinfo_onednn_%s_probe();
int main() { return opinfo_onednn_%s_probe(); }
"""
#: The most starts of the program; after these its answers are unknown.
STARTS = 3


@dataclass
class ImplementationProbe(LineProcess):
    """The program, started when it is first asked."""

    seconds: float = 20.0
    starting: float = 20.0
    name: ClassVar[str] = "onednn"

    def answer(self, job: str) -> dict[str, Any]:
        """The answer to a job of ``cpp/probe.cpp``. Raises ``ProcessDied``."""
        with self._lock:
            self._start()
            answer = self._ask({"job": job}, "asking oneDNN")
            self._used = time.monotonic()
            return answer


@dataclass(frozen=True)
class Implementations:
    """What a region gets.

    Attributes:
        steps: The implementation of each primitive in oneDNN's own words, such as
            ``brgconv:avx2``; a tensor that is brought to another layout is a ``reorder`` before.
        microseconds: The CPU time of a call in one thread; None if it was not measured.
    """

    steps: tuple[str, ...]
    microseconds: float | None = None


def implementation(region: Region) -> str | None:
    """The name of a region's slowest implementation; None if it is unknown.

    It is ``ref:any`` if any step is reference code, else that of the first step.
    """
    kernels = implementations(region)
    if kernels is None or not kernels.steps:
        return None
    names = [step.split()[-1] for step in kernels.steps]
    return next((n for n in names if n.startswith("ref")), names[0])


def implementations(region: Region, seconds: float = 0.0) -> Implementations | None:
    """The implementations of a region with static shapes.

    Args:
        region: The region; its constants may be zeros.
        seconds: How long to measure, on tensors of the program's own; 0 measures nothing.

    Returns:
        The implementations; None if oneDNN refuses the region, or no process can be asked.
    """
    job = job_of(region)
    return None if job is None else _asked(f"query {seconds:g} {job}")


def of_one_batch(region: Region) -> Region:
    """The region of a convolution with one element in a batch whose size is symbolic.

    Other symbolic extents stay: a convolution's best form depends on all but the batch.
    """
    anchor = region.calls[0]
    if anchor.op not in (*CONV, *CONV_TRANSPOSE):
        return region
    batch = str(anchor.attrs["out_layout"] or anchor.attrs["data_layout"]).index("N")
    size, last = region.result.shape[batch], batch - len(region.result.shape)
    if isinstance(size, int):
        return region

    def one(tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor
        shape = [1 if k - len(tensor.shape) == last and same(e, size) else e
                 for k, e in enumerate(tensor.shape)]  # fmt: skip
        return replace(tensor, shape=tuple(shape))

    calls = tuple(replace(c, operands=tuple(map(one, c.operands)), result=one(c.result))
                  for c in region.calls)  # fmt: skip
    return replace(region, calls=calls, inputs=tuple(map(one, region.inputs)),
                   results=tuple(map(one, region.results)))  # fmt: skip


def job_of(region: Region) -> str | None:
    """A region as the program reads it: shapes of tensors and of constants, the recipe.

    It is None if an extent is symbolic, or the region has no recipe.
    """
    shown = (*region.inputs, *region.results)
    if not all(t.static and t.dtype in DTYPES for t in shown):
        return None
    frame = OneDnnFunction(replace(region, constants=tuple(map(_ones, region.constants))),
                           Constants())  # fmt: skip
    try:
        recipe = recipe_of(frame)
    except NotInPlace:
        return None
    fixed = [[a.ndim, DTYPES[str(a.dtype)], *a.shape] for a in frame.constants.arrays]
    return f"{_table(rows_of(region))} {_table(fixed)} {recipe.text}"


def _ones(array: Any) -> Any:
    """Constants that can be divided by, without memory."""
    return np.broadcast_to(np.ones((), array.dtype), array.shape)


def _table(rows: Sequence[Sequence[int]]) -> str:
    return " ".join([str(len(rows)), *(ints(row).replace(",", "") for row in rows)])


@functools.lru_cache(maxsize=1 << 16)
def _asked(job: str) -> Implementations | None:
    answer = ask(job)
    if answer is None or "steps" not in answer:
        return None
    return Implementations(tuple(answer["steps"]), answer.get("microseconds"))


def ask(job: str) -> dict[str, Any] | None:
    """The program's answer to a job; None if it died, or cannot be built."""
    probe = _probe(os.getpid())
    if probe is None or _deaths[0] >= STARTS:
        return None
    try:
        return probe.answer(job)
    except (ProcessDied, OSError):
        _deaths[0] += 1
        return None


_deaths = [0]


@functools.cache
def _probe(process: int) -> ImplementationProbe | None:
    """The program of a process: a fork starts its own."""
    if available():
        return None
    try:
        return ImplementationProbe(command=(str(_program()),))
    except (CompilerError, OSError) as error:
        warn(f"onednn: its implementations are unknown and not compared: {one_line(error)}")
        return None


def _program() -> Path:
    """The program's file, from the cache or compiled now.

    Raises:
        CompilerError: It does not compile.
        OSError: Neither the cache nor a temporary folder can be written.
    """

    def write(part: Path) -> None:
        key, objects = runtime_objects()
        with tempfile.TemporaryDirectory(prefix=".source-") as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text(MAIN % (key, key), encoding="utf-8")
            program(str(part), str(source), [*options(), *map(str, objects), *_tvm_library()])
        part.chmod(0o700)

    return kept_file("onednn", program_key(), write)


def program_key() -> str:
    """A digest of the program: its source, and the object with the options for both."""
    words = [MAIN, object_key(), *_tvm_library()]
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:24]


def _tvm_library() -> list[str]:
    """Options to link what the functions of models need, which the object has too."""
    path = Path(tvm_ffi.libinfo.find_libtvm_ffi())
    return [str(path), f"-Wl,-rpath,{path.parent}"]
