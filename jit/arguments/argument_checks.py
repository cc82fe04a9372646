"""One argument as a compiled model needs it, by the kind of its parameter."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm_ffi

from .signature import Extent, Param, spelled, value

#: Bytes that compiled code may load at once.
ALIGNMENT = 64
Values = dict[str, int]
#: An argument, a field of it, a field of that, …
Path = tuple[int, ...]
_Tensor = tvm_ffi.Tensor


class BoundaryError(ValueError):
    """An argument that a function cannot take; the message names it and what it must be."""


class Acceptor:
    """Checks one argument; called for each, so that it is written for speed."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        self.param, self.strict, self.function = param, strict, function
        self.extents = param.shape
        self.composed = [(k, e) for k, e in enumerate(param.shape or ()) if isinstance(e, tuple)]

    def __call__(self, arg: Any, values: Values) -> Any:
        """A function. TVM takes None for anything, and crashes."""
        if arg is None:
            raise self.wrong("is None", f"must be a {self.param.kind}")
        return arg

    def leaves(self, path: Path) -> Iterator[tuple[Acceptor, Path]]:
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


class _TupleAcceptor(Acceptor):
    """Each field by its own acceptor; the tuple is made anew of what they give."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        super().__init__(param, function, strict)
        self.fields = [acceptor(f, function, strict) for f in param.fields]

    def __call__(self, arg: Any, values: Values) -> Any:
        if not isinstance(arg, tuple | list | tvm_ffi.Array):
            raise self.wrong(f"is {type(arg).__name__}", f"must be a tuple: {self.param}")
        if len(arg) != len(self.fields):
            raise self.wrong(f"has {len(arg)} fields",
                             f"must have {len(self.fields)}: {self.param}")  # fmt: skip
        return tuple(accept(a, values) for accept, a in zip(self.fields, arg, strict=True))

    def leaves(self, path: Path) -> Iterator[tuple[Acceptor, Path]]:
        for k, f in enumerate(self.fields):
            yield from f.leaves((*path, k))


class _ShapeAcceptor(Acceptor):
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


class _NumberAcceptor(Acceptor):
    """A number of any library, as Python's."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        super().__init__(param, function, strict)
        self.bounds = bounds(param.dtype)

    def __call__(self, arg: Any, values: Values) -> Any:
        if self.param.dtype is None:
            return super().__call__(arg, values)
        try:
            arg = bool(arg) if isinstance(arg, np.bool_) else arg
            number = operator.index(arg) if self.bounds else self.real(arg)
        except (TypeError, ValueError, OverflowError):
            raise self.wrong(f"is {type(arg).__name__}", f"must be {self.param}") from None
        if self.bounds and not self.bounds[0] <= number <= self.bounds[1]:
            raise self.wrong(f"is {number}", f"must be {self.param}")
        return bool(number) if self.param.dtype == "bool" else number

    @staticmethod
    def real(arg: Any) -> float:
        if isinstance(arg, str | bytes | bytearray):  # float() reads them
            raise TypeError
        return float(arg)


class _ObjectAcceptor(Acceptor):
    """Anything; tensors in it are copied where the code that finds them could not read them."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        super().__init__(param, function, strict)
        self.tensor = _TensorAcceptor(Param(param.name, None, None), function, strict)

    def __call__(self, arg: Any, values: Values) -> Any:
        if isinstance(arg, tuple | list | tvm_ffi.Array) and not isinstance(arg, tvm_ffi.Shape):
            return tuple(self(a, values) for a in arg)
        if not hasattr(arg, "__dlpack_device__"):
            return arg
        return self.tensor(arg, values) if arg.__dlpack_device__()[0] == self.tensor.device else arg


class _TensorAcceptor(Acceptor):
    """A tensor, copied where it must be."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        super().__init__(param, function, strict)
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
        if self.strict and address % ALIGNMENT:
            raise self.wrong(f"is at {address:#x}", f"must be aligned to {ALIGNMENT} bytes")
        if self.param.device != "cpu":
            raise self.wrong("is not aligned or not contiguous", "must be, where it is not copied")
        try:
            return _aligned(array if isinstance(array, np.ndarray) else np.from_dlpack(array))
        except (BufferError, TypeError, RuntimeError, ValueError) as e:
            raise self.wrong(f"cannot be copied: {e}", "must be aligned and contiguous") from e


def acceptor(param: Param, function: str, strict: bool) -> Acceptor:
    """For a parameter of a function of this name; ``strict``: nothing is copied."""
    return _ACCEPTORS.get(param.kind, Acceptor)(param, function, strict)


def bounds(dtype: str | None) -> tuple[int, int] | None:
    """The least and the largest integer of a type that TVM passes (none is above 63 bits); None
    where it is of no integers."""
    if dtype == "bool":
        return 0, 1
    kind, bits = str(dtype).rstrip("0123456789"), str(dtype).lstrip("uint")
    if kind not in ("int", "uint"):
        return None
    half = 1 << int(bits) - 1
    return (-half, half - 1) if kind == "int" else (0, min(2 * half, 1 << 63) - 1)


_ACCEPTORS: dict[str, type[Acceptor]] = {
    "number": _NumberAcceptor,
    "object": _ObjectAcceptor,
    "tensor": _TensorAcceptor,
    "tuple": _TupleAcceptor,
    "shape": _ShapeAcceptor,
}


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
