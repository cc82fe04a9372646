"""Generate with a session: the caches of a model, kept between its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from ...analysis.support.wording import plural
from ..arguments.argument_checks import ALIGNMENT, BoundaryError
from ..arguments.signature import Cache, Extent, Param, Signature, spelled, value

#: Rows for which a new cache has room.
FIRST = 64
Buffer = np.ndarray[Any, Any]


class Generation:
    """The caches of one sequence, or of a batch of them, and the result of the last call.

    `Session.start` creates it. A call appends to the caches in place; their room doubles when it is
    used up, so the cost of growing is constant for each row. It is not thread-safe, but any number
    of generations may use one session.

    Args:
        functions: Returns a function of the model by name, as `opinfo.Session` does.
        function: The function that processes a prompt.
        step: The function that processes the tokens after it.

    Attributes:
        result: What the last call returned.
        length: The rows in use.
    """

    def __init__(self, functions: Callable[[str], Any], function: str, step: str) -> None:
        self._functions, self._function, self._step = functions, function, step
        self.result: Any = None
        self.length = 0
        self._buffers: list[Buffer] = []
        signature = functions(function).signature
        _check_caches(signature)
        if step != function:
            _check_same_caches(signature, functions(step).signature)

    @property
    def capacity(self) -> int:
        """The rows for which the caches have room."""
        if not self._buffers:
            return 0
        cache = self._functions(self._function).signature.caches[0]
        return int(self._buffers[0].shape[cache.axis])

    def start(self, *inputs: Any) -> Any:
        """Drop what is cached, process a prompt, and return the result."""
        self.length = 0
        return self._call(self._function, inputs)

    def step(self, *inputs: Any) -> Any:
        """Process the next tokens after those that are cached.

        Args:
            inputs: A value for each parameter that is not a cache.

        Returns:
            What the function returns without its caches, such as the logits.

        Raises:
            BoundaryError: An input does not fit; the caches stay as they were.
        """
        return self._call(self._step, inputs)

    def reset(self, length: int = 0) -> None:
        """Forget all rows behind the first ``length``; the caches keep their room.

        Raises:
            ValueError: There are fewer rows.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"reset: expected a length from 0 to {self.length}, got {length}")
        self.length = length

    def fork(self) -> Generation:
        """Return a copy, which continues independently: it copies the rows in use."""
        out = Generation(self._functions, self._function, self._step)
        caches = self._functions(self._function).signature.caches
        out.length, out.result = self.length, self.result
        out._buffers = [_grown(b, c.axis, self.length, self.capacity)
                        for b, c in zip(self._buffers, caches, strict=True)]  # fmt: skip
        return out

    def _call(self, name: str, inputs: Sequence[Any]) -> Any:
        function = self._functions(name)
        signature = function.signature
        values = _sizes(signature, inputs)
        rows = {value(c.count, values) for c in signature.caches}
        if len(rows) != 1 or None in rows:
            counts = ", ".join(sorted({spelled(c.count) for c in signature.caches}))
            raise BoundaryError(f"{name}: the number of new rows, {counts}, does not follow from "
                                "the inputs")  # fmt: skip
        (count,) = rows
        assert count is not None
        self._make_room(signature, values, self.length + count)
        result = function(*self._arguments(signature, inputs))
        self.length += count
        self.result = result
        return result

    def _make_room(self, signature: Signature, values: dict[str, int], rows: int) -> None:
        """Create the caches, or replace them by larger ones."""
        if self._buffers and rows <= self.capacity and self._fits(signature, values):
            return
        size = max(rows, FIRST, 2 * self.capacity)
        if self._buffers and self._fits(signature, values):
            pairs = zip(self._buffers, signature.caches, strict=True)
            self._buffers = [_grown(b, c.axis, self.length, size) for b, c in pairs]
            return
        if self.length:
            shape = self._buffers[0].shape
            raise BoundaryError(f"{signature.function}: the inputs do not fit the caches, the "
                                f"first of which has the shape {shape}")  # fmt: skip
        self._buffers = [_empty(_shape(signature, c, values, size), _param(signature, c).dtype)
                         for c in signature.caches]  # fmt: skip

    def _fits(self, signature: Signature, values: dict[str, int]) -> bool:
        """Return whether the caches have the other extents that the inputs require."""
        pairs = zip(self._buffers, signature.caches, strict=True)
        return all(b.shape == _shape(signature, c, values, self.capacity) for b, c in pairs)

    def _arguments(self, signature: Signature, inputs: Sequence[Any]) -> list[Any]:
        """Return a value for each parameter."""
        caches: dict[int, Any] = {}
        for cache, buffer in zip(signature.caches, self._buffers, strict=True):
            tensor = tvm_ffi.from_dlpack(buffer)
            if cache.field < 0:
                caches[cache.param] = tensor
            else:
                caches.setdefault(cache.param, {})[cache.field] = tensor
        rest = iter(inputs)
        out: list[Any] = []
        for k in range(len(signature.params)):
            if k == signature.length:
                out.append((self.length,))
            elif k in caches:
                own = caches[k]
                out.append(tuple(own[j] for j in sorted(own)) if isinstance(own, dict) else own)
            else:
                out.append(next(rest))
        return out


def _check_caches(signature: Signature) -> None:
    if not signature.caches:
        raise ValueError(f"start: {signature.function} has no caches; compile the module that "
                         "opinfo.transform.AppendToCaches returns")  # fmt: skip
    for k in {c.param for c in signature.caches}:
        fields = len(signature.params[k].fields)
        if fields and fields != sum(c.param == k for c in signature.caches):
            raise ValueError(f"start: {signature.params[k].name} has fields that are no caches")


def _check_same_caches(first: Signature, second: Signature) -> None:
    kinds = [[(_param(s, c).dtype, c.axis, [e if isinstance(e, int) else None
                                            for e in _param(s, c).shape or ()])
              for c in s.caches] for s in (first, second)]  # fmt: skip
    if kinds[0] != kinds[1]:
        raise ValueError(f"start: the caches of {first.function} and {second.function} differ in "
                         "number, dtype, shape or axis")  # fmt: skip


def _inputs(signature: Signature) -> list[Param]:
    own = {c.param for c in signature.caches} | {signature.length}
    return [p for k, p in enumerate(signature.params) if k not in own]


def _sizes(signature: Signature, inputs: Sequence[Any]) -> dict[str, int]:
    """Return the values of the symbols that the inputs determine."""
    params = _inputs(signature)
    if len(params) != len(inputs):
        names = ", ".join(map(str, params))
        raise BoundaryError(f"{signature.function} takes {plural(len(params), 'input')} beside its "
                            f"caches, got {len(inputs)}: {names}")  # fmt: skip
    values: dict[str, int] = {}
    for param, argument in zip(params, inputs, strict=True):
        for extent, size in zip(param.shape or (), getattr(argument, "shape", ()), strict=False):
            if isinstance(extent, str):
                values.setdefault(extent, int(size))
    return values


def _param(signature: Signature, cache: Cache) -> Param:
    param = signature.params[cache.param]
    return param if cache.field < 0 else param.fields[cache.field]


def _shape(
    signature: Signature, cache: Cache, values: dict[str, int], capacity: int
) -> tuple[int, ...]:
    extents: Sequence[Extent] = _param(signature, cache).shape or ()
    sizes = [capacity if k == cache.axis else value(e, values) for k, e in enumerate(extents)]
    if None in sizes:
        raise BoundaryError(f"{signature.function}: the inputs do not determine the shape of "
                            f"{_param(signature, cache)}")  # fmt: skip
    return tuple(int(s) for s in sizes if s is not None)


def _empty(shape: Sequence[int], dtype: str | None) -> Buffer:
    """Return an array at an address that compiled code can use."""
    item = np.dtype(dtype)
    size = int(np.prod(shape)) * item.itemsize
    memory = np.empty(size + ALIGNMENT, "uint8")
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(item).reshape(tuple(shape))


def _grown(buffer: Buffer, axis: int, length: int, capacity: int) -> Buffer:
    """Return a copy of the rows in use, with room for so many."""
    shape = list(buffer.shape)
    shape[axis] = capacity
    out = _empty(shape, str(buffer.dtype))
    rows = (*[slice(None)] * axis, slice(length))
    out[rows] = buffer[rows]
    return out
