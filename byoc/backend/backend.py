"""A backend: patterns that it takes, layouts that it wants, a converter to code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..patterns.pattern import Condition, Pattern
from ..patterns.subgraphs import Coarse
from .onnx_file import OnnxModel
from .region import Region

#: Functions that a backend need not have.
OPTIONAL = ("cost", "implementation", "conversion", "eight_bits")


@dataclass(frozen=True)
class Code:
    """The generated source of one model: a C++ file with a function for each region.

    Attributes:
        source: The C++ text.
        symbols: The exported function of each region. It receives the region's inputs, then its
            results, as ``TensorView``.
        constants: Arrays by name; all are passed to ``__init_<symbol>`` at load time.
        options: Options for the compiler, including libraries and their paths.
        rounds: By symbol, how a region rounds differently from its individual operators.
    """

    source: str
    symbols: tuple[str, ...]
    constants: tuple[tuple[str, Any], ...] = ()
    options: tuple[str, ...] = ()
    rounds: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class OnnxReader:
    """How a backend runs the file that a model was loaded from.

    Attributes:
        convert: Turns a file into code with its one function.
        dtypes: The dtypes of inputs and results that it takes.
        conditions: What every operator of the imported model must satisfy. Where the runtime
            departs from ONNX for some values only, calls with random inputs would not show it.
        takes_unknown: Whether operators that were not recovered satisfy them.
        drops_unused: Whether it has no inputs that no operator reads, so that the numbers of
            others differ from those in the file.
        clamps: Whether it gets inputs of int64 that have no bounds clamped to 2^24, up to which
            float32 has all integers. A result that may be beyond is refused.
        checks_indices: Whether a call fails where an index is outside of its axis. Otherwise the
            model's checks run before the file.
    """

    convert: Callable[[OnnxModel], Code]
    dtypes: frozenset[str]
    conditions: tuple[Condition, ...] = ()
    takes_unknown: bool = False
    drops_unused: bool = False
    clamps: bool = False
    checks_indices: bool = False


@dataclass(frozen=True)
class Backend:
    """A target for regions: what it takes, and how regions become code.

    Attributes:
        name: Unique; used in options and messages.
        patterns: Chains of operators, tried at every operator.
        convert: Turns all regions of a model into code.
        available: Returns why this machine cannot use the backend; None if it can.
        wants: Layouts by operator, as for `plan_layout`.
        cost: Returns the cost of a region in microseconds, or None if it is unknown. In its
            argument, symbolic extents are numbers and constants are zeros.
        version: Returns the version of its code and library. opinfo does not use plans and times
            that another version saved.
        coarse: Patterns of subgraphs of any size.
        implementation: Returns the library's own name of the kernel that it runs for a region,
            such as ``brgconv:avx2``; None if it cannot say. A name that begins with ``ref`` means
            reference code, which costs more, one that begins with ``winograd`` a convolution
            with fewer multiplications, one that begins with ``tiled`` a product that is close to
            the CPU's best rate, and one that begins with ``attention`` products around a softmax
            whose operands are never in memory as a whole.
        views: Whether its patterns read operands through slices and moves. Products of one tensor
            are merged for it, and slices of a moved tensor get moves of their own.
        conversion: Returns the microseconds that converting the layout of a tensor takes on its
            device, from the bytes read and written; None for a CPU's memory.
        reader: How it runs the ONNX file that a model was loaded from; None if it cannot.
        row_versions: Whether it leaves products of one row with packed weights to TVM, so that a
            function with a symbolic number of rows gets a version for one row.
        groups: Whether it multiplies rows with matrices of their experts as they are stored, so
            that kernels whose blocks walk over groups of rows become such products.
        eight_bits: Returns why it refuses a product of 8-bit numbers: by their dtype, the leading
            extents of the result, its columns and the terms of a sum, which are ints if they are
            static; None if it takes it. Products of dequantised numbers become such products.
        widens: Whether it takes no products of float16. If all backends do so, products of
            float16 whose sums are float32 become products of float32.
    """

    name: str
    patterns: tuple[Pattern, ...]
    convert: Callable[[Sequence[Region]], Code]
    available: Callable[[], str | None] = field(default=lambda: None)
    wants: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cost: Callable[[Region], float] | None = None
    version: Callable[[], str] = field(default=lambda: "")
    coarse: tuple[Coarse, ...] = ()
    implementation: Callable[[Region], str | None] | None = None
    views: bool = False
    conversion: Callable[[float], float] | None = None
    reader: OnnxReader | None = None
    row_versions: bool = False
    groups: bool = False
    eight_bits: Callable[[str, Sequence[object], object, object], str | None] | None = None
    widens: bool = False

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"Backend: the name must be an identifier, got {self.name!r}")
        if self.name == "tvm":
            raise ValueError("Backend: the name 'tvm' is reserved for TVM's own code")
        optional = [n for n in OPTIONAL if getattr(self, n) is not None]
        for hook in ("convert", "available", "version", *optional):
            if not callable(value := getattr(self, hook)):
                raise TypeError(f"Backend {self.name}: {hook} must be a function, got {value!r}")
        if not isinstance(self.reader, OnnxReader | None):
            raise TypeError(f"Backend {self.name}: reader must be an OnnxReader, "
                            f"got {self.reader!r}")  # fmt: skip
        for field_, kind in (("patterns", Pattern), ("coarse", Coarse)):
            values = getattr(self, field_)
            if not isinstance(values, Sequence):
                raise TypeError(f"Backend {self.name}: {field_} must be a tuple, got {values!r}")
            wrong = [p for p in values if not isinstance(p, kind)]
            if wrong:
                raise TypeError(f"Backend {self.name}: {field_} must be of {kind.__name__}, "
                                f"got {wrong[0]!r}")  # fmt: skip

    @cached_property
    def merges(self) -> frozenset[str]:
        """Operators that continue its chains or are in its subgraphs.

        Several ops that compute one of them are merged.
        """
        chained = (s for p in self.patterns for s in p.steps[1:])
        coarse = (s for c in self.coarse for s in c.steps)
        return frozenset(n for s in (*chained, *coarse) for n in s.names)

    @property
    def pattern_names(self) -> tuple[str, ...]:
        """The names of its chain patterns and of its coarse patterns."""
        return (*(p.name for p in self.patterns), *(c.name for c in self.coarse))
