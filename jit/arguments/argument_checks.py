"""The checks of the arguments of a compiled model, by the kinds of their parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm_ffi

from .acceptor import Acceptor, Path, Values
from .signature import Param
from .tensor_checks import TensorAcceptor


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
        self.tensor = TensorAcceptor(Param(param.name, None, None), function, strict)

    def __call__(self, arg: Any, values: Values) -> Any:
        if isinstance(arg, tuple | list | tvm_ffi.Array) and not isinstance(arg, tvm_ffi.Shape):
            return tuple(self(a, values) for a in arg)
        if not hasattr(arg, "__dlpack_device__"):
            return arg
        return self.tensor(arg, values) if arg.__dlpack_device__()[0] == self.tensor.device else arg


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
    "tensor": TensorAcceptor,
    "tuple": _TupleAcceptor,
    "shape": _ShapeAcceptor,
}
