"""Check the arguments of a compiled model, and copy only those that must be copied.

Compiled code trusts its arguments: it issues vector loads that crash on memory that is not aligned
to 64 bytes. An argument with a wrong dtype, rank, extent or device is refused by name. One that is
unaligned or not contiguous is copied (with ``strict``: refused). The same holds for tensors in
tuples and in untyped objects.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from ...analysis.support.wording import plural
from .acceptor import BoundaryError, Path, Values
from .argument_checks import acceptor
from .extent import Extent, mentions, spelled, value
from .index_ranges import IndexRange
from .signature import Cache, Signature
from .tensor_checks import TensorAcceptor

#: Exclusive upper bound of extents: TVM stores them as signed 64-bit integers.
END = 1 << 63
_CPU = int(tvm_ffi.device("cpu", 0).dlpack_device_type())


class ShapeOutOfRange(BoundaryError):
    """A symbolic extent outside its declared range."""


def checked_integer(value: Any, what: str) -> int:
    """Convert an integer of any library to Python's.

    Raises:
        ValueError: It is not an integer of 64 bits.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{what}: expected an integer, got {value!r}") from None
    if not -END < number < END:
        raise ValueError(f"{what}: expected a 64-bit integer, got {value!r}")
    return number


@dataclass(frozen=True)
class Range:
    """A range of integers.

    Attributes:
        low: The smallest value, at least 0.
        high: The largest value, inclusive; None for no bound.
        multiple_of: A divisor of every value.

    Raises:
        ValueError: A bound is invalid, or the range is empty.
    """

    low: int = 1
    high: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "multiple_of"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_integer(getattr(self, name), name))
        if self.low < 0 or self.multiple_of < 1:
            raise ValueError(f"{self!r}: low must not be negative, multiple_of must be positive")
        if self.high is not None and self.first() > self.high:
            raise ValueError(f"{self!r}: the range is empty")

    def first(self) -> int:
        """Return the smallest value."""
        return -(-self.low // self.multiple_of) * self.multiple_of

    def last(self) -> int | None:
        """Return the largest value, or None if the range is unbounded."""
        return None if self.high is None else self.high // self.multiple_of * self.multiple_of

    def __contains__(self, number: int) -> bool:
        if number < self.low or number % self.multiple_of:
            return False
        return self.high is None or number <= self.high

    def __str__(self) -> str:
        text = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
        return text if self.multiple_of == 1 else f"{text}, a multiple of {self.multiple_of}"


class Boundary:
    """Checks the arguments of a function; cheap enough for every call.

    Args:
        signature: The function's name and parameters.
        ranges: Declared ranges of symbolic extents, by name; enforced if `strict`.
        strict: Refuse arguments instead of copying them. Arrays that numpy does not export
            (read-only, bfloat16) are copied even then.

    Raises:
        ValueError: A range names an unknown symbol.
    """

    def __init__(
        self,
        signature: Signature,
        ranges: Mapping[str, Range] | None = None,
        strict: bool = False,
    ) -> None:
        self.signature, self.ranges, self.strict = signature, dict(ranges or {}), strict
        self.places = signature.symbols()
        unknown = sorted(self.ranges.keys() - self.places.keys())
        if unknown:
            names = ", ".join(self.places) or "none"
            raise ValueError(f"{signature.function} has no symbolic extent {', '.join(unknown)}; "
                             f"those in its parameters: {names}")  # fmt: skip
        self._accept = [acceptor(p, signature.function, strict) for p in signature.params]
        for cache in signature.caches:
            check: Any = self._accept[cache.param]
            (check if cache.field < 0 else check.fields[cache.field]).is_cache = True
        self._composed = [(a, path, axis, e) for k, check in enumerate(self._accept)
                          for a, path in check.leaves((k,)) for axis, e in a.composed]  # fmt: skip

    def __call__(self, args: Sequence[Any]) -> tuple[list[Any], Values]:
        """Return the arguments to pass, and the values of the symbolic extents.

        Raises:
            BoundaryError: An argument does not fit.
            ShapeOutOfRange: In strict mode, an extent is outside its declared range.
        """
        if len(args) != len(self._accept):
            raise BoundaryError(f"{self.signature.function} takes "
                                f"{plural(len(self._accept), 'argument')}, "
                                f"got {len(args)}: {self.signature}")  # fmt: skip
        values: Values = {}
        out = [accept(arg, values) for accept, arg in zip(self._accept, args, strict=True)]
        for accept, path, axis, extent in self._composed:
            accept.compose(_extents_at(out, path)[axis], axis, extent, values)
        for cache in self.signature.caches:  # before conditions, which say less of it
            self._check_room(cache, out, values)
        for condition in self.signature.conditions:
            if value(condition, values) == 0:
                raise self._contradiction(condition, values)
        for indices in self.signature.indices:
            self._check_elements(indices, out[indices.param], values)
        if self.strict:
            for name, allowed in self.ranges.items():
                if values[name] not in allowed:
                    raise self._out_of_range(name, values[name])
        return out, values

    def check_indices(self, args: Sequence[Any]) -> None:
        """Check the elements of arrays of a CPU that are copied to another device afterwards.

        Raises:
            BoundaryError: An element is outside of the axis that it indexes.
        """
        sizes = self._sizes(args) if self.signature.indices else {}
        for indices in self.signature.indices:
            if indices.param < len(args):
                self._check_elements(indices, args[indices.param], sizes)

    def check_masks(self, args: Sequence[Any]) -> None:
        """Check that no array has masked elements, of which compiled code would not know.

        Raises:
            BoundaryError: An array has some.
        """
        for accept, arg in zip(self._accept, args, strict=False):
            if isinstance(accept, TensorAcceptor):
                accept.unmasked(arg)

    def _sizes(self, args: Sequence[Any]) -> Values:
        """Return the symbolic extents that stand alone in the shapes of arguments."""
        return {extent: int(size) for param, arg in zip(self.signature.params, args, strict=False)
                if param.kind == "tensor" and param.shape is not None
                for extent, size in zip(param.shape, getattr(arg, "shape", ()), strict=False)
                if isinstance(extent, str)}  # fmt: skip

    def _check_elements(self, indices: IndexRange, tensor: Any, sizes: Values) -> None:
        """Check that elements are inside the axis that they index; of CPU tensors only.

        A copy from another device costs more than a call. Here, a million elements cost 0.2 ms.
        """
        if _on_cpu(tensor) and (outside := indices.outside(tensor, sizes)) is not None:
            name, (got, low, high) = self.signature.params[indices.param].name, outside
            raise BoundaryError(f"{self.signature.function}: argument {name} has the element "
                                f"{got}; as an index, it must be {low} to {high}"
                                if low <= high else
                                f"{self.signature.function}: argument {name} has the element "
                                f"{got}; it indexes an empty axis")  # fmt: skip

    def _check_room(self, cache: Cache, args: Sequence[Any], values: Values) -> None:
        """Check that a call writes inside a cache; compiled code trusts the length."""
        if cache.group < 0:  # code checks the positions
            return
        first, length = self.signature.groups[cache.group].state(args[self.signature.length or 0])
        count, room = value(cache.count, values), cache.of(args).shape[cache.axis]
        if count is None or min(first, length, count) < 0 or first + length + count > room:
            before = f"{first} before those in use, " if first else ""
            raise BoundaryError(f"{self.signature.function}: a cache has room for {room} rows, and "
                                f"{before}{length} in use and {count} new ones are "
                                "needed")  # fmt: skip

    def _contradiction(self, condition: Extent, values: Values) -> BoundaryError:
        sizes = ", ".join(f"{k} = {v}" for k, v in values.items() if mentions(condition, k))
        text = spelled(condition).removeprefix("(").removesuffix(")")
        return BoundaryError(f"{self.signature.function}: got {sizes}; the model is only defined "
                             f"for {text}: {self.signature}")  # fmt: skip

    def _out_of_range(self, name: str, got: int) -> ShapeOutOfRange:
        param, axis = self.places[name]
        return ShapeOutOfRange(
            f"{self.signature.function}: dimension {axis} of argument {param} ({name}) is {got}; "
            f"expected {self.ranges[name]}"
        )


def _on_cpu(tensor: Any) -> bool:
    return hasattr(tensor, "__dlpack_device__") and int(tensor.__dlpack_device__()[0]) == _CPU


def _extents_at(args: Any, path: Path) -> Any:
    for k in path:
        args = args[k]
    return args if isinstance(args, tvm_ffi.Shape) else args.shape
