"""Small programs to test a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax, tirx

Array = np.ndarray[Any, Any]
#: Values of symbolic sizes, in order of occurrence.
SIZES = (3, 7, 5, 2)
#: Largest accepted difference from TVM's result, relative to its largest value.
TOLERANCES = {"float64": 1e-10, "float32": 2e-4, "float16": 2e-2, "bfloat16": 5e-2}


@dataclass(frozen=True)
class Example:
    """A small program, and the regions that a backend should take.

    Args:
        name: The name in messages.
        inputs: Shapes. A string such as ``"n"`` is a symbolic size; equal strings are the same
            size.
        build: ``build(emit, const, *inputs)`` returns the result. ``emit`` binds a Relax call to a
            variable; ``const(4, 6)`` is a constant with this shape and random values.
        takes: The operators of the region, ``"conv2d add relu"``; commas separate regions. Empty if
            the backend must leave all operators to TVM.
        refused: A part of the reason why an operator stays with TVM.
        dtypes: The dtypes of inputs and constants to test.
        tolerance: Largest accepted difference from TVM's result, relative to its largest value; by
            default it depends on the dtype of the result.
    """

    name: str
    inputs: tuple[tuple[int | str, ...], ...]
    build: Callable[..., Any]
    takes: str = ""
    refused: str = ""
    dtypes: tuple[str, ...] = ("float32",)
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if not self.takes and not self.refused:
            raise ValueError(f"example {self.name!r}: expected takes, refused or both")

    @property
    def regions(self) -> list[str]:
        """The operators of each expected region."""
        names = ([op.rpartition(".")[2] for op in part.split()] for part in self.takes.split(","))
        return sorted(" ".join(ops) for ops in names if ops)

    def values(self, dtype: str) -> list[Array]:
        """Return seeded random inputs."""
        rng = np.random.default_rng(1)
        sizes: dict[str, int] = {}
        return [_random(rng, sized(s, sizes), dtype) for s in self.inputs]


@dataclass(frozen=True)
class Variant:
    """An example in one dtype; ``function`` is its name in :func:`module`."""

    example: Example
    dtype: str
    function: str

    def __str__(self) -> str:
        return f"{self.example.name} [{self.dtype}]"


def variants(examples: Iterable[Example]) -> list[Variant]:
    """Return each example in each of its dtypes."""
    pairs = [(e, d) for e in examples for d in e.dtypes]
    return [Variant(e, d, f"example_{k}") for k, (e, d) in enumerate(pairs)]


def module(cases: Iterable[Variant]) -> tvm.IRModule:
    """Return a Relax module with a function for each example."""
    bb = relax.BlockBuilder()
    for variant in cases:
        _add(bb, variant)
    return bb.get()


def _add(bb: Any, variant: Variant) -> None:
    rng = np.random.default_rng(0)
    sizes: dict[str, Any] = {}

    def const(*shape: int) -> Any:
        return relax.const(_random(rng, shape, variant.dtype), variant.dtype)

    def extent(size: int | str) -> Any:
        return sizes.setdefault(size, tirx.Var(size, "int64")) if isinstance(size, str) else size

    params = [relax.Var(f"x{k}", relax.TensorType([extent(e) for e in s], variant.dtype))
              for k, s in enumerate(variant.example.inputs)]  # fmt: skip
    with bb.function(variant.function, params):
        with bb.dataflow():
            out = bb.emit_output(variant.example.build(bb.emit, const, *params))
        bb.emit_func_output(out)


def difference(actual: Any, expected: Any, tolerance: float | None) -> str:
    """Say what is wrong with a result, or return an empty string."""
    pairs = list(zip(_flat(actual), _flat(expected), strict=True))
    return next((why for a, b in pairs if (why := _differs(a, b, tolerance))), "")


def _differs(actual: Array, expected: Array, tolerance: float | None) -> str:
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return (f"got {actual.dtype}{list(actual.shape)}, "
                f"expected {expected.dtype}{list(expected.shape)}")  # fmt: skip
    accepted = TOLERANCES.get(str(expected.dtype), 0.0) if tolerance is None else tolerance
    a, b = actual.astype("float64"), expected.astype("float64")
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return "an element that is NaN or infinite with TVM differs"
    if not finite.any():
        return ""
    worst = np.abs(a - b)[finite].max() / (np.abs(b[finite]).max() or 1.0)
    if worst <= accepted:  # false for NaN
        return ""
    return f"differs from TVM by {worst:.1e} of the largest value, expected at most {accepted:.1e}"


def _flat(result: Any) -> Iterator[Array]:
    if isinstance(result, tvm.runtime.Tensor):
        yield result.numpy()
    else:
        for part in result:
            yield from _flat(part)


def sized(shape: tuple[int | str, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    """Replace symbolic sizes in a shape by numbers, recorded in ``sizes``."""
    return tuple(
        sizes.setdefault(size, SIZES[len(sizes) % len(SIZES)]) if isinstance(size, str) else size
        for size in shape
    )


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iub":
        return rng.integers(0, 2 if kind.kind == "b" else 5, shape).astype(kind)
    return rng.standard_normal(shape).astype(kind)
