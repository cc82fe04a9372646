"""Check a tensor that a compiled model gets, and copy it if compiled code could not read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi

from .acceptor import Acceptor, BoundaryError, Values
from .lazy_arrays import is_lazy, is_masked, resolved
from .signature import Param

#: Alignment in bytes that compiled code assumes for vector loads.
ALIGNMENT = 64
_Tensor = tvm_ffi.Tensor


class TensorAcceptor(Acceptor):
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
        elif isinstance(arg, np.generic):  # such as the sum of an array
            return self(np.asarray(arg), values)
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


def aligned_array(shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
    """Return an array at an address that compiled code can use."""
    item: np.dtype[Any] = np.dtype(dtype)
    size = int(np.prod(shape)) * item.itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(item).reshape(tuple(shape))


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
    copy = aligned_array(array.shape, array.dtype)
    copy[...] = array
    try:
        return tvm_ffi.from_dlpack(copy)
    except (BufferError, TypeError):
        from tvm import runtime

        return runtime.tensor(copy)
