"""How functions with symbolic shapes are compiled, and what is known of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import tvm

from ..analysis.op_info import PatternKind
from .boundary import Range


@dataclass(frozen=True)
class Dim(Range):
    """What is declared of a symbolic dimension of a Relax function: its range, and ``likely``
    values, which `Jit("eager")` compiles ahead and `Aot` takes as buckets."""

    likely: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
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
    number is 0, times infinity it is not). ``max_variants`` bounds the product over dimensions.
    """

    buckets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pad: bool = False
    finite: bool = False
    max_variants: int = 16


@dataclass(frozen=True)
class Jit:
    """Kernels compiled in the background for shapes that come in; the generic one serves until
    then. ``lazy`` after ``threshold`` calls of a shape, ``eager`` also the likely ones at once."""

    mode: Literal["lazy", "eager"] = "lazy"
    threshold: int = 2

    def __post_init__(self) -> None:
        if self.mode not in ("lazy", "eager"):
            raise ValueError(f'Jit: expected "lazy" or "eager", got {self.mode!r}')
        if self.threshold < 1:
            raise ValueError(f"Jit: threshold must be at least 1, got {self.threshold}")


@dataclass(frozen=True)
class Library:
    """A call of a backend that takes symbolic shapes; ``Generic`` where it does not."""

    backends: tuple[str, ...] = ("onednn", "blas")


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
    for s in (*found.by_function.values(), *found.by_op.values()):
        strategy(s)
    known = {*tvm.ir.Op.list_op_names(), *get_args(PatternKind)}
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
