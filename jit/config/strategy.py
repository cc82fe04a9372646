"""Strategies for functions with symbolic shapes, and declarations of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

import tvm

from ...analysis.results.op_info import PatternKind
from ...analysis.support.wording import did_you_mean
from ..arguments.boundary import END, Range, checked_integer


@dataclass(frozen=True)
class Dim(Range):
    """The declaration of a symbolic dimension.

    Attributes:
        low: The smallest value.
        high: The largest value, inclusive; None for no bound.
        multiple_of: A divisor of every value.
        likely: Likely values. `Jit("eager")` compiles them at once; `Aot` uses them as buckets.
    """

    likely: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.likely, Sequence):
            raise ValueError(f"likely: expected values such as (1, 8), got {self.likely!r}")
        likely = tuple(checked_integer(v, "a likely value") for v in self.likely)
        object.__setattr__(self, "likely", likely)
        for value in self.likely:
            if value not in self:
                raise ValueError(f"the likely value {value} is not in {self}")


@dataclass(frozen=True)
class Generic:
    """One kernel for all shapes.

    Attributes:
        scheduled: Use a schedule for symbolic shapes if there is one, else TVM's default.
    """

    scheduled: bool = True


@dataclass(frozen=True)
class Aot:
    """Kernels for some shapes in addition to the generic one, selected inside the PrimFunc.

    Shapes without a kernel use the generic one. The library needs only TVM's runtime.

    Attributes:
        buckets: Values by dimension; by default the likely ones and, for a small range, all of it.
        pad: Serve a shape between two buckets with the upper one, if that is proved correct and
            faster.
        finite: With `pad`, also accept proofs that assume finite inputs.
        max_variants: Limit on the kernels of a function, over all combinations of dimensions.
        ranges: Kernels with symbolic shapes for a part of the values, by dimension: ``(low, high)``
            or ``(low, high, multiple)``, both ends included, or a `Range`. Buckets take precedence,
            then the first range that contains the value. By default the declared range is split
            where that is faster; an empty tuple disables ranges.
        max: One kernel at the upper end of each declared range, over inputs padded to it, if that
            is proved correct and faster.
    """

    buckets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pad: bool = False
    finite: bool = False
    max_variants: int = 16
    ranges: Mapping[str, Sequence[Range | tuple[int, ...]]] = field(default_factory=dict)
    max: bool = False

    def __post_init__(self) -> None:
        for what in ("buckets", "ranges"):
            _mapping(f"Aot: {what}", getattr(self, what))
        for name, values in self.buckets.items():
            if not isinstance(values, list | tuple) or not all(map(_positive, values)):
                raise ValueError(f"Aot: buckets of {name}: expected positive integers of 64 "
                                 f"bits, such as (1, 8), got {values!r}")  # fmt: skip
        buckets = {name: tuple(map(int, values)) for name, values in self.buckets.items()}
        object.__setattr__(self, "buckets", buckets)
        self.checked()
        if self.max and (self.buckets or self.ranges):
            raise ValueError("Aot: max cannot be combined with buckets or ranges, got those of "
                             f"{', '.join([*self.buckets, *self.ranges])}")  # fmt: skip
        if not _positive(self.max_variants):
            raise ValueError("Aot: max_variants: expected a positive integer, got "
                             f"{self.max_variants!r}")  # fmt: skip

    def checked(self) -> dict[str, tuple[Range, ...]]:
        """Return the ranges as `Range` objects; raises ``ValueError`` for an invalid one."""
        return {name: _ranges(name, values) for name, values in self.ranges.items()}


def _mapping(what: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f'{what}: expected a mapping such as {{"n": ...}}, got {value!r}')


def _positive(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 < int(value) < END


def _ranges(name: str, values: Any) -> tuple[Range, ...]:
    """Convert the ranges of a dimension; raises ``ValueError`` for an invalid one."""
    expected = "(low, high) or (low, high, multiple) of positive integers, or a Range"
    if not isinstance(values, list | tuple):
        raise ValueError(f"Aot: ranges of {name}: expected a list of {expected}, got {values!r}")
    return tuple(_range(name, r, expected) for r in values)


def _range(name: str, value: Any, expected: str) -> Range:
    if not isinstance(value, Range):
        numbers = value if isinstance(value, list | tuple) else ()
        if len(numbers) not in (2, 3) or not all(map(_positive, numbers)):
            raise ValueError(f"Aot: ranges of {name}: expected {expected}, got {value!r}")
        try:
            value = Range(*map(int, numbers))
        except ValueError as error:
            raise ValueError(f"Aot: ranges of {name}: {error}") from None
    if value.low < 1:
        raise ValueError(f"Aot: ranges of {name}: expected a range from 1 or above, got {value!r}")
    return Range(value.low, value.high, value.multiple_of)


@dataclass(frozen=True)
class Jit:
    """Kernels compiled in the background; the generic kernel serves until then.

    Attributes:
        mode: ``lazy`` compiles a shape after `threshold` calls; ``eager`` also compiles likely
            shapes at once.
        threshold: Calls of a shape before it is compiled.
    """

    mode: Literal["lazy", "eager"] = "lazy"
    threshold: int = 2

    def __post_init__(self) -> None:
        if self.mode not in ("lazy", "eager"):
            raise ValueError(f'Jit: expected "lazy" or "eager", got {self.mode!r}')
        object.__setattr__(self, "threshold", checked_integer(self.threshold, "Jit: threshold"))
        if self.threshold < 1:
            raise ValueError(f"Jit: threshold must be at least 1, got {self.threshold}")


@dataclass(frozen=True)
class Library:
    """A call of a backend that accepts symbolic shapes; `Generic` if no backend does.

    Attributes:
        backends: The names of the backends, in order of preference.
    """

    backends: tuple[str, ...] = ("onednn", "blas")

    def __post_init__(self) -> None:
        if not isinstance(self.backends, list | tuple):
            raise ValueError('Library: expected names of backends, such as ("onednn", "blas"), got '
                             f"{self.backends!r}")  # fmt: skip


@dataclass(frozen=True)
class Record:
    """The generic kernel, and a count of the shapes that occur."""


Strategy = Generic | Aot | Jit | Library | Record
NAMED: dict[str, Strategy] = {"generic": Generic(), "aot": Aot(), "jit": Jit(),
                              "library": Library(), "record": Record()}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """The strategy of each function.

    Attributes:
        default: The strategy of all other functions. A name such as ``"jit"`` also works.
        by_function: Strategies by the name of a PrimFunc in the module.
        by_op: Strategies by the name of an operator in it (``relax.matmul``) or its pattern kind
            (``kElemWise``); the first match applies. `by_function` takes precedence.
        dims: Declared dimensions, by the name of a symbolic variable, or by place: ``x:0`` is axis
            0 of the argument x.
        tuned: A database of `opinfo tune` for AOT variants; a `Compiler` has its own setting.
    """

    default: Strategy | str = "jit"
    by_function: Mapping[str, Strategy | str] = field(default_factory=dict)
    by_op: Mapping[str, Strategy | str] = field(default_factory=dict)
    dims: Mapping[str, Dim] = field(default_factory=dict)
    tuned: str | Path | None = None


def strategy(value: Strategy | str) -> Strategy:
    """Return a strategy given by object or name; raises ``ValueError`` for anything else."""
    if isinstance(value, Generic | Aot | Jit | Library | Record):
        return value
    if isinstance(value, str) and value in NAMED:
        return NAMED[value]
    raise ValueError(f"expected a strategy or one of {', '.join(NAMED)}, got {value!r}"
                     f"{did_you_mean(value, NAMED)}")  # fmt: skip


def checked_config(value: Config | Strategy | str) -> Config:
    """Return a checked configuration from one, or from a strategy for all functions."""
    config = value if isinstance(value, Config) else Config(value)
    strategy(config.default)
    for mapping in ("by_function", "by_op", "dims"):
        _mapping(mapping, getattr(config, mapping))
    for choice in (*config.by_function.values(), *config.by_op.values()):
        strategy(choice)
    op_names = {*tvm.ir.Op.list_op_names(), *get_args(PatternKind)}
    for name, dim in config.dims.items():
        if not isinstance(dim, Dim):
            raise ValueError(f"dims: {name}: expected a Dim, such as Dim(1, 8), got {dim!r}")
    for name in config.by_op:
        if name not in op_names:
            raise ValueError(f"by_op: {name} is neither an operator, such as relax.matmul, nor a "
                             f"pattern kind: {', '.join(get_args(PatternKind))}"
                             f"{did_you_mean(name, sorted(op_names))}")  # fmt: skip
    return config


def chosen(config: Config, name: str, ops: tuple[Any, ...]) -> Strategy:
    """Return the strategy of a function with this name and these operators."""
    if name in config.by_function:
        return strategy(config.by_function[name])
    for key, value in config.by_op.items():
        if any(key in (op.name, op.kind) for op in ops):
            return strategy(value)
    return strategy(config.default)
