"""Run a kernel at n, and at N over inputs padded with poison: are the valid outputs the same bits?

Nothing of the proof is used: the kernel is compiled unchanged, its shapes are evaluated by TVM.
"""

from __future__ import annotations

import faulthandler
import math
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from opinfo.byoc.dims.symbolic_dims import Symbol, symbols
from opinfo.testing.unoptimised import TARGET
from tests.common import interpret

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
#: Pairs of n and N.
PAIRS = ((3, 4), (1, 2), (4, 7), (2, 5))
OTHER = 3  # the value of all other dimensions
TRIALS = 2
#: Garbage of both kinds: integers have no NaN.
POISON: tuple[dict[str, Any], ...] = (
    {"bool": True, "uint8": 255, "int8": -128, "int32": -(2**31) + 7, "int64": 2**40 + 3},
    {"bool": False, "uint8": 1, "int8": 127, "int32": 2**30 + 3, "int64": -(2**50)},
)
Fill = Callable[[int, str], Any]


class Unbuilt(Exception):
    """TVM does not build the kernel."""


@dataclass(frozen=True)
class Kernel:
    """A compiled PrimFunc; ``buffers`` are its parameters but for numbers, inputs first."""

    func: Any
    run: Any
    known: tuple[Symbol, ...]
    buffers: tuple[Any, ...]
    inputs: int
    indices: tuple[int, int] | None  # valid integers; None: below 2 and each extent

    @property
    def kinds(self) -> list[str]:
        return [str(p.ty.dtype) for p in self.buffers]

    @property
    def of_integers(self) -> bool:
        """Whether garbage may crash it: the question is asked in another process."""
        return any("int" in k for k in self.kinds[: self.inputs])

    def shapes(self, values: Mapping[str, int]) -> list[Shape]:
        at = [(s.var, values[s.name]) for s in self.known]

        def number(v: Any, _: Any) -> Any:
            return next((tirx.IntImm(v.ty.dtype, x) for w, x in at if w.same_as(v)), v)

        simplify = tvm.sym.Analyzer().simplify
        return [
            tuple(int(simplify(tvm_ffi.structural_mutate(e, [(tvm.ir.Var, number)])).value)
                  for e in p.ty.shape)
            for p in self.buffers
        ]  # fmt: skip

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Shape],
                 values: Mapping[str, int]) -> list[Array]:  # fmt: skip
        kinds = self.kinds[self.inputs :]
        made = [tvm.runtime.tensor(np.zeros(s, k)) for s, k in zip(outputs, kinds, strict=True)]
        tensors = iter([*(tvm.runtime.tensor(x) for x in inputs), *made])
        names = {s.var: s.name for s in self.known}
        self.run(*(next(tensors) if tirx.is_buffer_var(p) else values[names[p]]
                   for p in self.func.params))  # fmt: skip
        return [t.numpy() for t in made]


def compiled(func: Any) -> Kernel:
    """Raises `Unbuilt`."""
    try:
        named = func.with_attr("global_symbol", "kernel")
        built = tvm.tirx.build(tvm.IRModule({"kernel": named}), target=TARGET)["kernel"]
    except Exception as e:
        raise Unbuilt(str(e)[-100:]) from None
    buffers = tuple(p for p in func.params if tirx.is_buffer_var(p))
    kernel = Kernel(func, built, symbols(func), buffers, len(buffers) - _written(func), None)
    if kernel.of_integers and _takes_any(kernel):
        return Kernel(func, built, kernel.known, buffers, kernel.inputs, (-3, 7))
    return kernel


def _written(func: Any) -> int:
    """The number of parameters that are stored into."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, found.append, order="post")
    stored = [s.buffer for s in found if type(s).__name__ == "BufferStore"]
    return sum(any(p.same_as(b) for b in stored) for p in func.params)


def _takes_any(kernel: Kernel) -> bool:
    """Whether integers of all kinds are valid: by an interpreter that checks each access."""
    rng = np.random.default_rng(1)
    try:
        run = interpret.compiled(kernel.func)
        for n in (1, 3):
            values = {s.name: n for s in kernel.known}
            shapes = kernel.shapes(values)[: kernel.inputs]
            for _ in range(3):
                run([data(s, k, rng, (-3, 7)) for s, k in zip(shapes, kernel.kinds, strict=False)],
                    values)  # fmt: skip
    except Exception:
        return False
    return True


def data(shape: Shape, dtype: str, rng: np.random.Generator, between: tuple[int, int]) -> Array:
    """Valid content."""
    if "float" in dtype:
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(*((0, 2) if dtype == "bool" else between), shape).astype(dtype)


def safe(kernel: Kernel, name: str, contents: Mapping[int, Any] | None = None) -> bool:
    """Whether the padding may hold this, by the place of the parameter, and anything where it is
    None. A kernel that crashes may not."""
    held = contents or {}
    places = [k for k, p in enumerate(kernel.func.params) if tirx.is_buffer_var(p)]

    def filled(poison: Mapping[str, Any]) -> Fill:
        def content(k: int, dtype: str) -> Any:
            value = held.get(places[k])
            return poison.get(dtype, math.nan) if value is None else value

        return content

    ints = [k for k in range(kernel.inputs) if "float" not in kernel.kinds[k]]
    kinds = POISON if any(held.get(places[k]) is None for k in ints) else POISON[:1]

    def work() -> bool:
        return all(_same(kernel, name, filled(p)) for p in kinds)

    return _forked(work) if kernel.of_integers else work()


def _same(kernel: Kernel, name: str, content: Fill) -> bool:
    rng = np.random.default_rng(0)
    others = {s.name: OTHER for s in kernel.known}
    for n, more in PAIRS:
        shapes = [s for v in (n, more) for s in kernel.shapes({**others, name: v})]
        if min((e for s in shapes for e in s), default=0) < 0:
            continue  # no such tensors
        for _ in range(TRIALS):
            if not _agree(kernel, {**others, name: n}, {**others, name: more}, content, rng):
                return False
    return True


def _agree(kernel: Kernel, small: Mapping[str, int], large: Mapping[str, int], content: Fill,
           rng: np.random.Generator) -> bool:  # fmt: skip
    few, many = kernel.shapes(small), kernel.shapes(large)
    inside = min((e for shape in few[: kernel.inputs] for e in shape if e), default=1)
    between = kernel.indices or (0, min(inside, 2))
    valid, padded = [], []
    for k in range(kernel.inputs):
        kind = kernel.kinds[k]
        x = data(few[k], kind, rng, between)
        y = np.full(many[k], content(k, kind) if few[k] != many[k] else 0, kind)
        y[tuple(map(slice, few[k]))] = x
        valid.append(x)
        padded.append(y)
    want = kernel(valid, few[kernel.inputs :], small)
    got = kernel(padded, many[kernel.inputs :], large)
    return all(_bits(w, g[tuple(map(slice, w.shape))]) for w, g in zip(want, got, strict=True))


def _bits(a: Array, b: Array) -> bool:
    """Equal bits, but that any NaN is one, and so are the zeros."""
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


def _forked(work: Callable[[], bool]) -> bool:
    """The answer of a child process; one that dies says no."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            signal.alarm(20)
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = 0 if work() else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
