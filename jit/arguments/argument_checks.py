"""Check one argument of a compiled model, and convert it if its parameter requires that."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm_ffi

from .extent import Extent, spelled, value
from .lazy_arrays import is_lazy, is_masked, resolved
from .signature import Param

#: Alignment in bytes that compiled code assumes for vector loads.
ALIGNMENT = 64
Values = dict[str, int]
#: Index of an argument, then of a field in it, and so on.
Path = tuple[int, ...]
_Tensor = tvm_ffi.Tensor


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


class _TupleAcceptor(Acceptor):
    """Checks each field and rebuilds the tuple from the results."""

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
        for k, field in enumerate(self.fields):
            yield from field.leaves((*path, k))


class _ShapeAcceptor(Acceptor):
    """Accepts a shape, or a list or tuple of integers."""

    def __call__(self, arg: Any, values: Values) -> Any:
        if not isinstance(arg, tuple | list):
            raise self.wrong(f"is {type(arg).__name__}", f"must be a shape: {self.param}")
        try:
            numbers = tuple(map(operator.index, arg))
            shape = arg if isinstance(arg, tvm_ffi.Shape) else tvm_ffi.Shape(numbers)
        except (TypeError, ValueError, OverflowError) as error:
            raise self.wrong(f"is not a shape: {error}", f"must be {self.param}") from error
        for axis, got in enumerate(shape):
            if got < 0:
                raise self.extent(axis, got, "0 or more")
        if self.extents is not None:
            self.shape(shape, values)
        return shape


class _NumberAcceptor(Acceptor):
    """Accepts a number of any library and converts it to Python's."""

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
        if isinstance(arg, str | bytes | bytearray):  # float() would parse them
            raise TypeError
        return float(arg)


class _ObjectAcceptor(Acceptor):
    """Accepts any object; tensors inside it are copied if compiled code could not read them."""

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
    """Accepts a tensor, and copies it only if it must."""

    def __init__(self, param: Param, function: str, strict: bool) -> None:
        super().__init__(param, function, strict)
        self.dtype, self.numpy_dtype = param.dtype, _numpy_dtype(param.dtype)
        self.fixed = all(isinstance(e, int) for e in param.shape or (None,))
        self.device = int(tvm_ffi.device(param.device, 0).dlpack_device_type())
        #: The last tensor accepted for a parameter without symbols: a weight is checked once.
        self.last_accepted: Any = self
        #: Whether the function writes to it: a copy would lose that.
        self.is_cache = False

    def __call__(self, arg: Any, values: Values) -> Any:
        if arg is self.last_accepted:
            return arg
        if isinstance(arg, _Tensor):
            tensor, dtype = arg, arg.dtype
        elif isinstance(arg, np.ndarray):
            if self.numpy_dtype is not None and arg.dtype != self.numpy_dtype:
                raise self.wrong(f"is {arg.dtype}", f"must be {self.dtype}")
            if type(arg) is not np.ndarray:
                self.unmasked(arg)
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
        address = tensor.data_ptr()
        if not address:  # such as a tensor of torch that stands for one without data
            raise self.wrong("has no data", f"must be {self.param}")
        if address % ALIGNMENT or not tensor.is_contiguous():
            return self.copied(tensor, address, tensor.is_contiguous())
        if self.fixed and tensor is arg:
            self.last_accepted = tensor
        return tensor

    def unmasked(self, arg: Any) -> None:
        """Refuse an array with masked elements, of which compiled code would not know."""
        if is_masked(arg):
            raise self.wrong("has masked elements", f"must be {self.param}; pass x.filled(value)")

    def imported(self, arg: Any) -> Any:
        """Import a tensor of another library through DLPack."""
        if not hasattr(arg, "__dlpack__"):
            raise self.wrong(f"is {type(arg).__name__}", "must be a tensor")
        if (self.strict or self.is_cache) and is_lazy(arg):
            expected = f"must be {self.param}; pass x.resolve_neg().resolve_conj()"
            raise self.wrong("is negated or conjugated when it is read", expected)
        try:
            return tvm_ffi.from_dlpack(resolved(arg))
        except Exception as error:  # a DLPack producer may raise anything
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise self.wrong(
                f"cannot be imported as a tensor: {reason}", f"must be {self.param}"
            ) from error

    def empty(self, array: Any) -> Any:
        """Return an empty tensor with the strides that compiled code expects; numpy's are 0."""
        import tvm

        return tvm.runtime.empty(tuple(map(int, array.shape)), str(array.dtype),
                                 tvm.device(self.param.device))  # fmt: skip

    def copied(self, array: Any, address: int, contiguous: bool) -> Any:
        if self.is_cache:
            raise BoundaryError(
                f"{self.function}: cache parameter {self.param.name} must be a writable, aligned, "
                "contiguous tensor; use Session.start"
            )
        if self.strict and not contiguous:
            raise self.wrong("is not contiguous", "must be contiguous; "
                             "pass tvm.runtime.tensor(x), or drop strict")  # fmt: skip
        if self.strict and address % ALIGNMENT:
            raise self.wrong(f"is at {address:#x}", f"must be aligned to {ALIGNMENT} bytes; "
                             "pass tvm.runtime.tensor(x), or drop strict")  # fmt: skip
        if self.param.device != "cpu":
            raise self.wrong(
                "is not aligned or not contiguous", "must be both: only CPU tensors are copied"
            )
        try:
            return _aligned(array if isinstance(array, np.ndarray) else np.from_dlpack(array))
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            raise self.wrong(
                f"cannot be copied: {error}", "must be aligned and contiguous"
            ) from error


def acceptor(param: Param, function: str, strict: bool) -> Acceptor:
    """Return the check of a parameter; with ``strict`` nothing is copied."""
    return _ACCEPTORS.get(param.kind, Acceptor)(param, function, strict)


def bounds(dtype: str | None) -> tuple[int, int] | None:
    """Return the least and greatest integer of a dtype, or None if it is not an integer type.

    TVM passes integers as signed 64-bit values, which limits uint64.
    """
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
    """Share an array as a tensor; None if numpy does not export it (read-only, bfloat16)."""
    try:
        return tvm_ffi.from_dlpack(array)
    except (BufferError, TypeError):
        return None


def _aligned(array: Any) -> Any:
    """Copy an array into an aligned tensor."""
    raw = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    copy = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    try:
        return tvm_ffi.from_dlpack(copy)
    except (BufferError, TypeError):
        from tvm import runtime

        return runtime.tensor(copy)
