"""Large constants beside the JSON of a module, in which they would be text.

Writing, checking and reading 100 MB of weights as text takes 5 s of CPU, copying them 0.3 s. In the
JSON, a scalar with the number of its array stands for each; the types stay.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod
from mmap import mmap
from typing import Any

import numpy as np
import tvm
from tvm import relax

from ....analysis.lifting.tir.node import items
from ....analysis.support.ir.rewrite_functions import rewrite_functions
from ....analysis.support.tvm_compat import array_of, with_array
from .json_graph import BadGraph

Array = np.ndarray[Any, Any]
#: Bytes, or memory that another process has written.
Message = bytes | mmap
#: Bytes of a constant beside the JSON at least, and of all of them together.
LARGE, LEAST = 1 << 12, 1 << 22
DTYPES = frozenset(("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"))


def packed(mod: tvm.IRModule) -> list[Any]:
    """Return a module as its JSON and arrays, after a line with their length and types.

    Each part is a buffer of bytes; the arrays are not copied.
    """
    mod, arrays = detached(mod)
    text = tvm.ir.save_json(mod).encode()
    elements = (np.ascontiguousarray(a).reshape(-1).view("uint8") for a in arrays)
    return [heading(text, arrays), text, *elements]


def heading(text: bytes, arrays: Sequence[Array]) -> bytes:
    """Return the line in front of the JSON of a module and arrays."""
    return json.dumps([len(text), [[str(a.dtype), a.shape] for a in arrays]]).encode() + b"\n"


def unpacked(message: Message) -> tuple[bytes, list[Array]]:
    """Return the JSON of a module, which is not checked, and its arrays.

    Raises:
        BadGraph: The message is malformed.
    """
    return from_parts(message, None)


def from_parts(
    message: Message, elsewhere: Sequence[memoryview | None] | None
) -> tuple[bytes, list[Array]]:
    """Return the same as `unpacked` for a message without some of its arrays.

    Args:
        message: The message.
        elsewhere: For each array that it lacks, bytes that begin with its elements.

    Raises:
        BadGraph: The message is malformed, or the bytes are too few.
    """
    end = message.find(b"\n") + 1
    try:
        length, rows = json.loads(message[:end])
        types = [(dtype, tuple(extents)) for dtype, extents in rows]
        numbers = [length, *(e for _, extents in types for e in extents)]
    except (ValueError, TypeError, RecursionError) as error:
        raise BadGraph("expected the length of a module, and arrays") from error
    if any(type(n) is not int or n < 0 for n in numbers) or any(d not in DTYPES for d, _ in types):
        raise BadGraph("expected lengths, and dtypes of arrays")
    if elsewhere is not None and len(elsewhere) != len(types):
        raise BadGraph("expected as many places as arrays")
    place, arrays = end + length, []
    for (dtype, extents), other in zip(types, elsewhere or [None] * len(types), strict=True):
        source, start = (message, place) if other is None else (other, 0)
        count = prod(extents)
        if start + count * np.dtype(dtype).itemsize > len(source):
            raise BadGraph("the arrays are longer than the message")
        arrays.append(np.frombuffer(source, dtype, count, start).reshape(extents))
        place += arrays[-1].nbytes if other is None else 0
    if place != len(message):
        raise BadGraph("the message is longer than its arrays")
    return message[end : end + length], arrays


def detached(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[Array]]:
    """Return a module with numbers for its large constants, and their arrays."""
    writer = _Detached(mod)
    out = rewrite_functions(mod, writer)
    if sum(array.nbytes for array in writer.arrays) < LEAST:
        return mod, []
    return out, writer.arrays


def attached(mod: Any, arrays: Sequence[Array]) -> Any:
    """Return a module with arrays in place of their numbers.

    Raises:
        BadGraph: An array does not have the type of its constant.
    """
    if not arrays or not isinstance(mod, tvm.IRModule):
        return mod
    writer = _Attached(mod, arrays)
    out = rewrite_functions(mod, writer)
    if writer.wrong:  # an exception inside would lose its type
        raise BadGraph(writer.wrong)
    return out


@relax.expr_functor.mutator
class _Detached(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces large constants by numbers, and collects their arrays."""

    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.arrays: list[Array] = []
        self._numbers: dict[int, Any] = {}  # by address; `mod` keeps the constants alive

    def visit_generic_const_(self, const: Any) -> Any:
        if _extents(const) is None or str(const.ty.dtype) not in DTYPES:
            return const
        place = const.__chandle__()
        if place not in self._numbers:
            array = np.from_dlpack(array_of(const))
            number = tvm.runtime.tensor(np.array(len(self.arrays), "int64"))
            new = with_array(const, number) if array.nbytes >= LARGE else None
            if new is not None:
                self.arrays.append(array)
            self._numbers[place] = const if new is None else new
        return self._numbers[place]


@relax.expr_functor.mutator
class _Attached(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces the numbers of large constants by their arrays, and checks that these fit."""

    def __init__(self, mod: tvm.IRModule, arrays: Sequence[Array]) -> None:
        super().__init__(mod)
        self.arrays = arrays
        self.wrong = ""
        self._consts: dict[int, Any] = {}

    def visit_generic_const_(self, const: Any) -> Any:
        extents = _extents(const)
        if not extents or len(array_of(const).shape):
            return const
        number = int(array_of(const).numpy())
        self.wrong = self.wrong or self._mismatch(number, extents, str(const.ty.dtype))
        if self.wrong:
            return const
        if number not in self._consts:
            self._consts[number] = with_array(const, tvm.runtime.tensor(self.arrays[number]))
        return self._consts[number]

    def _mismatch(self, number: int, extents: tuple[int, ...], dtype: str) -> str:
        """Return why an array cannot be a constant of a type; empty if it can."""
        if not 0 <= number < len(self.arrays):
            return f"a constant is array {number} of {len(self.arrays)}"
        array = self.arrays[number]
        if array.shape == extents and str(array.dtype) == dtype:
            return ""
        actual, expected = f"{array.dtype}{list(array.shape)}", f"{dtype}{list(extents)}"
        return f"array {number} is {actual}, expected {expected}"


def _extents(const: Any) -> tuple[int, ...] | None:
    """Return the shape of a constant's type; None if it is not a tensor of known shape."""
    if not isinstance(const.ty, relax.TensorType) or const.ty.shape is None:
        return None
    extents = [getattr(e, "value", None) for e in items(const.ty.shape.values)]
    return None if None in extents else tuple(map(int, extents))  # type: ignore[arg-type]
