"""How functions with symbolic shapes are compiled, and what is known of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, get_args

import tvm

from ...analysis.results.op_info import PatternKind
from ..arguments.boundary import END, Range, whole


@dataclass(frozen=True)
class Dim(Range):
    """What is declared of a symbolic dimension of a Relax function: its range, and ``likely``
    values, which `Jit("eager")` compiles ahead and `Aot` takes as buckets."""

    likely: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.likely, Sequence):
            raise ValueError(f"likely: expected values, like (1, 8), got {self.likely!r}")
        likely = tuple(whole(v, "a likely value") for v in self.likely)
        object.__setattr__(self, "likely", likely)
        for v in self.likely:
            if v not in self:
                raise ValueError(f"the likely value {v} is not in {self}")


@dataclass(frozen=True)
class Generic:
    """One kernel for all shapes, by a schedule for symbolic shapes where there is one."""

    scheduled: bool = True


@dataclass(frozen=True)
class Aot:
    """Kernels for some shapes beside the generic one, chosen by the shape in the same PrimFunc.

    ``buckets`` are values by dimension: by default the likely ones and, where the range is small,
    all of it. ``pad`` also serves what lies between two buckets with the upper one, where that is
    proved; with ``finite`` also where the proof takes inputs for finite (0 in the padding times a
    number is 0, times infinity it is not).

    ``ranges`` are kernels with symbolic shapes for a part of the values: ``(low, high)`` or ``(low,
    high, multiple)``, both ends included, or `Range`. Their tiles are as large as the range allows,
    and have no rest where they divide the multiple. By default the declared range is cut where that
    is faster (see `ranges.parts`); ``{"n": ()}`` asks for none of n. Ranges may overlap: the first
    one serves, after the buckets.

    ``max``: one kernel for all, at the upper end of each declared range, over inputs that are
    padded to it where that is proved. It is ``buckets`` of the upper ends alone, with ``pad``.

    A bucket is padded to from those sizes on for which that is worth it (see `worth.lowest`): all
    where it costs little, else those of at least a quarter. What is told says so.

    ``max_variants`` bounds the kernels of a function, over all combinations of dimensions. What no
    kernel is for the generic one serves.
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
                                 f"bits, like (1, 8), got {values!r}")  # fmt: skip
        buckets = {name: tuple(map(int, values)) for name, values in self.buckets.items()}
        object.__setattr__(self, "buckets", buckets)
        self.checked()
        if self.max and (self.buckets or self.ranges):
            raise ValueError("Aot: max is one kernel at the upper ends; expected no buckets and no "
                             f"ranges beside it, got those of "
                             f"{', '.join([*self.buckets, *self.ranges])}")  # fmt: skip
        if not _positive(self.max_variants):
            raise ValueError("Aot: expected a positive integer as max_variants, got "
                             f"{self.max_variants!r}")  # fmt: skip

    def checked(self) -> dict[str, tuple[Range, ...]]:
        """The ranges. Raises ``ValueError``."""
        return {name: _ranges(name, given) for name, given in self.ranges.items()}


def _mapping(what: str, given: Any) -> None:
    if not isinstance(given, Mapping):
        raise ValueError(f'{what}: expected a mapping, like {{"n": ...}}, got {given!r}')


def _positive(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and 0 < int(value) < END


def _ranges(name: str, given: Any) -> tuple[Range, ...]:
    """What is given as ranges of a dimension. Raises ``ValueError``."""
    expected = "(low, high) or (low, high, multiple) of positive integers, or a Range"
    if not isinstance(given, list | tuple):
        raise ValueError(f"Aot: ranges of {name}: expected several of {expected}, got {given!r}")
    return tuple(_range(name, r, expected) for r in given)


def _range(name: str, given: Any, expected: str) -> Range:
    if not isinstance(given, Range):
        numbers = given if isinstance(given, list | tuple) else ()
        if len(numbers) not in (2, 3) or not all(map(_positive, numbers)):
            raise ValueError(f"Aot: ranges of {name}: expected {expected}, got {given!r}")
        try:
            given = Range(*map(int, numbers))
        except ValueError as e:
            raise ValueError(f"Aot: ranges of {name}: {e}") from None
    if given.low < 1:
        raise ValueError(f"Aot: ranges of {name}: expected a range from 1 on, got {given!r}")
    return Range(given.low, given.high, given.multiple_of)


@dataclass(frozen=True)
class Jit:
    """Kernels compiled in the background for shapes that come in; the generic one serves until
    then. ``lazy`` after ``threshold`` calls of a shape, ``eager`` also the likely ones at once."""

    mode: Literal["lazy", "eager"] = "lazy"
    threshold: int = 2

    def __post_init__(self) -> None:
        if self.mode not in ("lazy", "eager"):
            raise ValueError(f'Jit: expected "lazy" or "eager", got {self.mode!r}')
        object.__setattr__(self, "threshold", whole(self.threshold, "Jit: threshold"))
        if self.threshold < 1:
            raise ValueError(f"Jit: threshold must be at least 1, got {self.threshold}")


@dataclass(frozen=True)
class Library:
    """A call of a backend that takes symbolic shapes; ``Generic`` where it does not."""

    backends: tuple[str, ...] = ("onednn", "blas")

    def __post_init__(self) -> None:
        if not isinstance(self.backends, list | tuple):
            raise ValueError('Library: expected names of backends, like ("onednn", "blas"), got '
                             f"{self.backends!r}")  # fmt: skip


@dataclass(frozen=True)
class Record:
    """The generic kernel, and counts of the shapes that came in."""


Strategy = Generic | Aot | Jit | Library | Record
NAMED: dict[str, Strategy] = {"generic": Generic(), "aot": Aot(), "jit": Jit(),
                              "library": Library(), "record": Record()}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """Which function is compiled how.

    ``by_function`` is by the name of a PrimFunc in the module, ``by_op`` by the name of an operator
    in it ("relax.matmul") or by its pattern kind ("kElemWise"); the first that fits is taken, a
    function before an operator. ``dims`` are by the name of a symbolic variable of the Relax
    function, or by a place where it stands alone, ``x:0`` for axis 0 of the argument x. ``tuned``
    is a database of `opinfo tune`, whose schedules are taken ahead of time; a `Compiler` is given
    its own. A strategy may be given by its name.
    """

    default: Strategy | str = "jit"
    by_function: Mapping[str, Strategy | str] = field(default_factory=dict)
    by_op: Mapping[str, Strategy | str] = field(default_factory=dict)
    dims: Mapping[str, Dim] = field(default_factory=dict)
    tuned: str | Path | None = None


def strategy(given: Strategy | str) -> Strategy:
    """A strategy or its name as a strategy."""
    if isinstance(given, Generic | Aot | Jit | Library | Record):
        return given
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    raise ValueError(f"expected a strategy or one of {', '.join(NAMED)}, got {given!r}")


def config(given: Config | Strategy | str) -> Config:
    """A configuration, or the strategy of all functions, as a configuration that is checked."""
    found = given if isinstance(given, Config) else Config(given)
    strategy(found.default)
    for mapping in ("by_function", "by_op", "dims"):
        _mapping(mapping, getattr(found, mapping))
    for s in (*found.by_function.values(), *found.by_op.values()):
        strategy(s)
    known = {*tvm.ir.Op.list_op_names(), *get_args(PatternKind)}
    for name, d in found.dims.items():
        if not isinstance(d, Dim):
            raise ValueError(f"dims: expected a Dim of {name}, like Dim(1, 8), got {d!r}")
    for name in found.by_op:
        if name not in known:
            raise ValueError(f"by_op: {name} is neither an operator, like relax.matmul, nor a "
                             f"pattern kind: {', '.join(get_args(PatternKind))}")  # fmt: skip
    return found


def chosen(found: Config, name: str, ops: tuple[Any, ...]) -> Strategy:
    """The strategy of a function of this name, with these `OpInfo`."""
    if name in found.by_function:
        return strategy(found.by_function[name])
    for key, value in found.by_op.items():
        if any(key in (op.name, op.kind) for op in ops):
            return strategy(value)
    return strategy(found.default)
