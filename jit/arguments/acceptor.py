"""The check of one argument of a compiled model; subclasses check tensors, numbers and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .extent import Extent, spelled, value
from .signature import Param

Values = dict[str, int]
#: Index of an argument, then of a field in it, and so on.
Path = tuple[int, ...]


class BoundaryError(ValueError):
    """An argument does not fit its parameter; the message names both."""


class Acceptor:
    """Checks one argument; on the hot path of every call, hence written for speed."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        self.param, self.strict, self.function = param, strict, function
        self.extents = param.shape
        self.composed = [(k, e) for k, e in enumerate(param.shape or ()) if isinstance(e, tuple)]

    def __call__(self, arg: Any, values: Values) -> Any:
        """Check a function. TVM accepts None for any parameter, and then crashes."""
        if arg is None:
            raise self.wrong("is None", f"must be a {self.param.kind}")
        return arg

    def leaves(self, path: Path) -> Iterator[tuple[Acceptor, Path]]:
        """Yield the checks outside and inside tuples, with the paths of their arguments."""
        yield self, path

    def shape(self, shape: tuple[int, ...], values: Values) -> None:
        extents = self.extents or ()
        if len(shape) != len(extents):
            raise self.wrong(f"has {len(shape)} dimensions, {list(shape)}",
                             f"must have {len(extents)}: {self.param}")  # fmt: skip
        for axis, extent in enumerate(extents):
            got = shape[axis]
            if isinstance(extent, int):
                if got != extent:
                    raise self.extent(axis, got, str(extent))
            elif isinstance(extent, str) and values.setdefault(extent, got) != got:
                expected = values[extent]
                raise self.extent(axis, got, f"{expected}, the value of {extent} elsewhere")

    def compose(self, got: int, axis: int, extent: Extent, values: Values) -> None:
        """Check an extent like ``n + 1`` once all symbols are known."""
        expected = value(extent, values)
        if expected is not None and got != expected:
            raise self.extent(axis, got, f"{expected}, the value of {spelled(extent)}")

    def extent(self, axis: int, got: int, expected: str) -> BoundaryError:
        got_text = f"has extent {got} in dimension {axis}"
        return self.wrong(got_text, f"must have {expected}: {self.param}")

    def wrong(self, got: str, expected: str) -> BoundaryError:
        return BoundaryError(f"{self.function}: argument {self.param.name} {got}; it {expected}")
