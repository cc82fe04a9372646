"""Arguments as a compiled model needs them: checked, and copied only where they must be.

Compiled code believes what it is given: it loads whole vectors from what is not aligned to 64
bytes and crashes. An argument of another dtype, rank, extent or device is refused with its name,
one that is not aligned or not contiguous is copied (``strict``: refused). So are those in tuples.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm_ffi

from .signature import Extent, Param, Signature, spelled, value

#: Bytes that compiled code may load at once.
ALIGNMENT = 64
#: Extents are below it.
END = 1 << 63
Values = dict[str, int]
#: An argument, a field of it, a field of that, …
Path = tuple[int, ...]
_Tensor = tvm_ffi.Tensor


class BoundaryError(ValueError):
    """An argument that the function cannot take; which one, what it is, what it must be."""


class ShapeOutOfRange(BoundaryError):
    """A symbolic extent that is not in its declared range."""


def whole(value: Any, what: str) -> int:
    """An integer of any library as Python's. Raises ``ValueError``."""
    try:
        found = operator.index(value)
    except TypeError:
        raise ValueError(f"{what}: expected an integer, got {value!r}") from None
    if not -END < found < END:
        raise ValueError(f"{what}: expected an integer of 64 bits, got {value!r}")
    return found


@dataclass(frozen=True)
class Range:
    """``low`` … ``high``, both included; ``high`` None: unbounded. Raises ``ValueError``."""

    low: int = 1
    high: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "multiple_of"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name))
        if self.low < 0 or self.multiple_of < 1:
            raise ValueError(f"{self!r}: low must not be negative, multiple_of must be positive")
        if self.high is not None and self.first() > self.high:
            raise ValueError(f"{self!r}: there is no such number")

    def first(self) -> int:
        """The smallest number in it."""
        return -(-self.low // self.multiple_of) * self.multiple_of

    def __contains__(self, number: int) -> bool:
        if number < self.low or number % self.multiple_of:
            return False
        return self.high is None or number <= self.high

    def __str__(self) -> str:
        told = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
        return told if self.multiple_of == 1 else f"{told}, a multiple of {self.multiple_of}"


class Boundary:
    """Checks the arguments of a function; cheap enough for each call.

    ``ranges``: those that symbolic extents are declared to have, by name. They are enforced where
    ``strict``. What numpy does not export (read-only, bfloat16) is copied in any case. Raises
    ``ValueError`` for a range of a symbol that there is not.
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
            known = ", ".join(self.places) or "none"
            raise ValueError(f"{signature.function} has no symbolic extent {', '.join(unknown)}; "
                             f"those that stand alone in a parameter's shape: {known}")  # fmt: skip
        self._accept = [_acceptor(self, p) for p in signature.params]
        self._composed = [(a, path, axis, e) for k, whole in enumerate(self._accept)
                          for a, path in whole.leaves((k,)) for axis, e in a.composed]  # fmt: skip

    def __call__(self, args: Sequence[Any]) -> tuple[list[Any], Values]:
        """What to call the function with, and what its symbolic extents are.

        Raises :class:`BoundaryError`, in strict mode :class:`ShapeOutOfRange`.
        """
        if len(args) != len(self._accept):
            raise BoundaryError(f"{self.signature.function} takes {len(self._accept)} arguments, "
                                f"got {len(args)}: {self.signature}")  # fmt: skip
        values: Values = {}
        out = [accept(arg, values) for accept, arg in zip(self._accept, args, strict=True)]
        for accept, path, axis, extent in self._composed:
            accept.compose(_extents_at(out, path)[axis], axis, extent, values)
        if self.strict:
            for name, allowed in self.ranges.items():
                if values[name] not in allowed:
                    raise self._out_of_range(name, values[name])
        return out, values

    def _out_of_range(self, name: str, got: int) -> ShapeOutOfRange:
        param, axis = self.places[name]
        return ShapeOutOfRange(
            f"{self.signature.function}: dimension {axis} of argument {param} ({name}) is {got}; "
            f"allowed is {self.ranges[name]}"
        )


class _Acceptor:
    """Checks one argument; called for each, so that it is written for speed."""

    def __init__(self, of: Boundary, param: Param) -> None:
        self.param, self.strict, self.function = param, of.strict, of.signature.function
        self.extents = param.shape
        self.composed = [(k, e) for k, e in enumerate(param.shape or ()) if isinstance(e, tuple)]

    def __call__(self, arg: Any, values: Values) -> Any:
        """What is no tensor, tuple or shape; TVM takes None for any of them, and crashes."""
        if arg is None and self.param.kind != "object":
            raise self.wrong("is None", f"must be a {self.param.kind}")
        return arg

    def leaves(self, path: Path) -> Iterator[tuple[_Acceptor, Path]]:
        """Those that are of no tuple, and where their arguments are."""
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
                known = values[extent]
                raise self.extent(axis, got, f"{known}, as {extent} is elsewhere")

    def compose(self, got: int, axis: int, extent: Extent, values: Values) -> None:
        """Extents like ``n + 1``, once all symbols are known."""
        expected = value(extent, values)
        if expected is not None and got != expected:
            raise self.extent(axis, got, f"{expected}, which is {spelled(extent)}")

    def extent(self, axis: int, got: int, expected: str) -> BoundaryError:
        return self.wrong(f"has {got} in dimension {axis}", f"must have {expected}: {self.param}")

    def wrong(self, got: str, expected: str) -> BoundaryError:
        return BoundaryError(f"{self.function}: argument {self.param.name} {got}; it {expected}")


class _TupleAcceptor(_Acceptor):
    """Each field by its own acceptor; the tuple is made anew of what they give."""

    def __init__(self, of: Boundary, param: Param) -> None:
        super().__init__(of, param)
        self.fields = [_acceptor(of, f) for f in param.fields]

    def __call__(self, arg: Any, values: Values) -> Any:
        if not isinstance(arg, tuple | list | tvm_ffi.Array):
            raise self.wrong(f"is {type(arg).__name__}", f"must be a tuple: {self.param}")
        if len(arg) != len(self.fields):
            raise self.wrong(f"has {len(arg)} fields",
                             f"must have {len(self.fields)}: {self.param}")  # fmt: skip
        return tuple(accept(a, values) for accept, a in zip(self.fields, arg, strict=True))

    def leaves(self, path: Path) -> Iterator[tuple[_Acceptor, Path]]:
        for k, f in enumerate(self.fields):
            yield from f.leaves((*path, k))


class _ShapeAcceptor(_Acceptor):
    """A shape, or a list or a tuple of numbers, which it is made of."""

    def __call__(self, arg: Any, values: Values) -> Any:
        if not isinstance(arg, tuple | list):
            raise self.wrong(f"is {type(arg).__name__}", f"must be a shape: {self.param}")
        try:
            numbers = tuple(map(operator.index, arg))
            shape = arg if isinstance(arg, tvm_ffi.Shape) else tvm_ffi.Shape(numbers)
        except (TypeError, ValueError, OverflowError) as e:
            raise self.wrong(f"is no shape: {e}", f"must be {self.param}") from e
        for axis, got in enumerate(shape):
            if got < 0:
                raise self.extent(axis, got, "0 or more")
        if self.extents is not None:
            self.shape(shape, values)
        return shape


class _TensorAcceptor(_Acceptor):
    """A tensor, copied where it must be."""

    def __init__(self, of: Boundary, param: Param) -> None:
        super().__init__(of, param)
        self.dtype, self.numpy_dtype = param.dtype, _numpy_dtype(param.dtype)
        self.fixed = all(isinstance(e, int) for e in param.shape or (None,))
        self.device = int(tvm_ffi.device(param.device, 0).dlpack_device_type())
        #: The last tensor of a parameter without symbols: a weight is checked once.
        self.known: Any = self

    def __call__(self, arg: Any, values: Values) -> Any:
        if arg is self.known:
            return arg
        if isinstance(arg, _Tensor):
            tensor, dtype = arg, arg.dtype
        elif isinstance(arg, np.ndarray):
            if self.numpy_dtype is not None and arg.dtype != self.numpy_dtype:
                raise self.wrong(f"is {arg.dtype}", f"must be {self.dtype}")
            tensor, dtype = _shared(arg), self.dtype
        else:
            tensor = self.imported(arg)
            dtype = tensor.dtype
        if dtype != self.dtype and self.dtype is not None:
            raise self.wrong(f"is {dtype}", f"must be {self.dtype}")
        if self.extents is not None:
            shape = arg.shape if tensor is None else tensor.shape
            if shape != self.extents:
                self.shape(shape, values)
        if 0 in (arg.shape if tensor is None else tensor.shape):
            return self.empty(arg if tensor is None else tensor)
        if tensor is None:
            return self.copied(arg, arg.ctypes.data, bool(arg.flags.c_contiguous))
        if tensor.__dlpack_device__()[0] != self.device:
            raise self.wrong(f"is on {tensor.device}", f"must be on {self.param.device}")
        if tensor.data_ptr() % ALIGNMENT or not tensor.is_contiguous():
            return self.copied(tensor, tensor.data_ptr(), tensor.is_contiguous())
        if self.fixed and tensor is arg:
            self.known = tensor
        return tensor

    def imported(self, arg: Any) -> Any:
        """What speaks DLPack."""
        if not hasattr(arg, "__dlpack__"):
            raise self.wrong(f"is {type(arg).__name__}", "must be a tensor")
        try:
            return tvm_ffi.from_dlpack(arg)
        except Exception as e:  # a producer raises what it likes
            raise self.wrong(f"is no tensor that can be taken: {e}", f"must be {self.param}") from e

    def empty(self, array: Any) -> Any:
        """No elements, with the strides that compiled code expects: numpy's are 0."""
        import tvm

        return tvm.runtime.empty(tuple(map(int, array.shape)), str(array.dtype),
                                 tvm.device(self.param.device))  # fmt: skip

    def copied(self, array: Any, address: int, contiguous: bool) -> Any:
        if self.strict and not contiguous:
            raise self.wrong("is not contiguous", "must be")
        if self.strict and address % ALIGNMENT and 0 not in array.shape:
            raise self.wrong(f"is at {address:#x}", f"must be aligned to {ALIGNMENT} bytes")
        if self.param.device != "cpu":
            raise self.wrong("is not aligned or not contiguous", "must be, where it is not copied")
        try:
            return _aligned(array if isinstance(array, np.ndarray) else np.from_dlpack(array))
        except (BufferError, TypeError, RuntimeError, ValueError) as e:
            raise self.wrong(f"cannot be copied: {e}", "must be aligned and contiguous") from e


def _acceptor(of: Boundary, param: Param) -> _Acceptor:
    return _ACCEPTORS.get(param.kind, _Acceptor)(of, param)


_ACCEPTORS: dict[str, type[_Acceptor]] = {
    "tensor": _TensorAcceptor,
    "tuple": _TupleAcceptor,
    "shape": _ShapeAcceptor,
}


def _extents_at(args: Any, path: Path) -> Any:
    for k in path:
        args = args[k]
    return args if isinstance(args, tvm_ffi.Shape) else args.shape


def _numpy_dtype(dtype: str | None) -> Any:
    if dtype is None:
        return None
    try:
        return np.dtype(dtype)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype))


def _shared(array: Any) -> Any | None:
    """A tensor of numpy's memory; None where numpy does not export it: read-only, bfloat16."""
    try:
        return tvm_ffi.from_dlpack(array)
    except (BufferError, TypeError):
        return None


def _aligned(array: Any) -> Any:
    """A tensor of the same values in memory of its own."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    try:
        return tvm_ffi.from_dlpack(copy)
    except (BufferError, TypeError):
        from tvm import runtime

        return runtime.tensor(copy)
