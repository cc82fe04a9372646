"""Generate with a session: the caches of a model, kept between its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from ...analysis.support.wording import plural
from ..arguments.acceptor import BoundaryError
from ..arguments.extent import spelled, value
from ..arguments.signature import Cache, CacheGroup, Param, Signature
from ..arguments.tensor_checks import aligned_array
from .cache_buffers import (
    Buffer,
    RowsInUse,
    Values,
    cache_param,
    cache_shape,
    clear_rows,
    moved_rows,
)

#: Rows for which a new cache has room.
FIRST = 64


class Generation:
    """The caches of one sequence, or of a batch of them, and the result of the last call.

    `Session.start` creates it. A call stores rows in the caches in place. Those that are appended
    to grow: their room doubles when it is used up, so the cost is constant for each row. If a
    function keeps only the last rows, those in use move on, and back to the start where the room
    ends. A cache whose rows are stored at positions that are an input has a fixed size, and begins
    with zeros. A generation is not thread-safe, but any number of them may use one session.

    Args:
        functions: Returns a function of the model by name, as `opinfo.Session` does.
        function: The function that processes a prompt.
        step: The function that processes the tokens after it.

    Attributes:
        result: What the last call returned.
        length: The rows that were stored since the start, also those that are not kept.
    """

    def __init__(self, functions: Callable[[str], Any], function: str, step: str) -> None:
        self._functions, self._function, self._step = functions, function, step
        self.result: Any = None
        self.length = 0
        self._buffers: list[Buffer] = []
        self._states: list[RowsInUse] = []
        signature = functions(function).signature
        _check_caches(signature)
        if step != function:
            _check_same_caches(signature, functions(step).signature)
        self._clear()

    @property
    def capacity(self) -> int:
        """The rows for which the first cache has room."""
        if not self._buffers:
            return 0
        cache = self._functions(self._function).signature.caches[0]
        return int(self._buffers[0].shape[cache.axis])

    def start(self, *inputs: Any) -> Any:
        """Drop what is cached, process a prompt, and return the result."""
        self._clear()
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
            ValueError: There are fewer rows, or some but not all would be forgotten of a cache that
                keeps only the last rows, or that stores rows at positions.
        """
        if not 0 <= length <= self.length:
            raise ValueError(f"reset: expected a length from 0 to {self.length}, got {length}")
        if length == 0:
            self._clear()
        elif length < self.length and (reason := self._whole()):
            raise ValueError(f"reset: {reason}; expected 0 or {self.length}, got {length}")
        elif length < self.length:
            self._states = [RowsInUse(s.first, length) for s in self._states]
        self.length = length

    def _whole(self) -> str:
        """Return why the first rows of a cache alone cannot be kept; empty if they can.

        A window of a fixed length begins with zeros, and drops one of these for each row: these
        are gone although as many rows may be in use as were stored.
        """
        signature = self._functions(self._function).signature
        if any(c.group < 0 for c in signature.caches):
            return "a cache stores rows at positions that only the inputs determine"
        dropped = any(isinstance(g.length, int) or s.length != self.length
                      for g, s in zip(signature.groups, self._states, strict=True))  # fmt: skip
        return "a cache keeps only the last rows, so rows before them are gone" if dropped else ""

    def fork(self) -> Generation:
        """Return a copy, which continues independently: it copies the rows in use."""
        out = Generation(self._functions, self._function, self._step)
        out.length, out.result, out._states = self.length, self.result, list(self._states)
        caches = self._functions(self._function).signature.caches
        for b, c, s in self._stored(caches):
            room = b.shape[c.axis]
            rows = RowsInUse(0, room) if c.group < 0 else s
            out._buffers.append(moved_rows(b, c.axis, rows, rows.first, room))
        return out

    def _clear(self) -> None:
        self.length = 0
        signature = self._functions(self._function).signature
        self._states = [RowsInUse(0, g.length if isinstance(g.length, int) else 0)
                        for g in signature.groups]  # fmt: skip
        for buffer, cache, state in self._stored(signature.caches):
            clear_rows(buffer, cache, state)

    def _stored(self, caches: Sequence[Cache]) -> list[tuple[Buffer, Cache, RowsInUse]]:
        """Return the buffers with the rows in use of each."""
        return [(b, c, RowsInUse(0, 0) if c.group < 0 else self._states[c.group])
                for b, c in zip(self._buffers, caches, strict=False)]  # fmt: skip

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
        after = [_after(name, g, s, count, values)
                 for g, s in zip(signature.groups, self._states, strict=True)]  # fmt: skip
        self._make_room(signature, values, count)
        result = function(*self._arguments(signature, inputs))
        self._states = [RowsInUse(s.first + s.length + count - kept, kept)
                        for s, kept in zip(self._states, after, strict=True)]  # fmt: skip
        self.length += count
        self.result = result
        return result

    def _make_room(self, signature: Signature, values: Values, count: int) -> None:
        """Create the caches, move their rows to the start, or replace them by larger ones."""
        if not self._buffers or not self._fits(signature, values):
            self._create(signature, values, count)
        stored, states = self._stored(signature.caches), list(self._states)
        for k, (buffer, cache, state) in enumerate(stored):
            room, needed = int(buffer.shape[cache.axis]), state.length + count
            if cache.group < 0 or state.first + needed <= room:
                continue
            if state.first and 2 * needed <= room:
                rows = np.moveaxis(buffer, cache.axis, 0)
                rows[: state.length] = rows[state.first : state.first + state.length]
            else:
                larger = max(needed, FIRST, 2 * room)
                self._buffers[k] = moved_rows(buffer, cache.axis, state, 0, larger)
            states[cache.group] = RowsInUse(0, state.length)
        self._states = states

    def _create(self, signature: Signature, values: Values, count: int) -> None:
        if self.length:
            shape = self._buffers[0].shape
            raise BoundaryError(f"{signature.function}: the inputs do not fit the caches, the "
                                f"first of which has the shape {shape}")  # fmt: skip
        self._states = [RowsInUse(0, s.length) for s in self._states]
        rooms = [max(FIRST, s.length + count) for s in self._states]
        buffers = []
        for c in signature.caches:
            room = None if c.group < 0 else rooms[c.group]
            shape = cache_shape(signature, c, values, room)
            buffers.append(aligned_array(shape, cache_param(signature, c).dtype))
        self._buffers = buffers
        for stored in self._stored(signature.caches):
            clear_rows(*stored)

    def _fits(self, signature: Signature, values: Values) -> bool:
        """Return whether the caches have the other extents that the inputs require."""
        return all(
            b.shape == cache_shape(signature, c, values, None if c.group < 0 else b.shape[c.axis])
            for b, c in zip(self._buffers, signature.caches, strict=True)
        )

    def _arguments(self, signature: Signature, inputs: Sequence[Any]) -> list[Any]:
        """Return a value for each parameter."""
        caches: dict[int, Any] = {}
        for cache, buffer in zip(signature.caches, self._buffers, strict=True):
            tensor = tvm_ffi.from_dlpack(buffer)
            if cache.field < 0:
                caches[cache.param] = tensor
            else:
                caches.setdefault(cache.param, {})[cache.field] = tensor
        lengths = [n for g, s in zip(signature.groups, self._states, strict=True)
                   for n in ((s.length, s.first) if g.slides else (s.length,))]  # fmt: skip
        rest = iter(inputs)
        out: list[Any] = []
        for k in range(len(signature.params)):
            if k == signature.length:
                out.append(tuple(lengths))
            elif k in caches:
                fields = caches[k]
                is_tuple = isinstance(fields, dict)
                out.append(tuple(fields[j] for j in sorted(fields)) if is_tuple else fields)
            else:
                out.append(next(rest))
        return out


def _after(name: str, group: CacheGroup, state: RowsInUse, count: int, values: Values) -> int:
    """Return the rows in use after a call."""
    if isinstance(group.length, int) and group.length != state.length:
        raise BoundaryError(f"{name}: it expects caches with {group.length} rows, and "
                            f"{state.length} are in use")  # fmt: skip
    total = state.length + count
    if not group.slides:
        return total
    lengths = {group.length: state.length} if isinstance(group.length, str) else {}
    kept = value(group.kept, {**values, **lengths})
    if kept is None or not 0 <= kept <= total:
        raise BoundaryError(f"{name}: of {total} rows, {spelled(group.kept)} ({kept}) cannot be "
                            "kept")  # fmt: skip
    return kept


def _check_caches(signature: Signature) -> None:
    if not signature.caches:
        raise ValueError(f"start: {signature.function} has no caches; compile the module that "
                         "opinfo.transform.AppendToCaches returns")  # fmt: skip
    for k in {c.param for c in signature.caches}:
        fields = len(signature.params[k].fields)
        if fields and fields != sum(c.param == k for c in signature.caches):
            raise ValueError(f"start: {signature.params[k].name} has fields that are not caches")


def _check_same_caches(first: Signature, second: Signature) -> None:
    kinds = [[(cache_param(s, c).dtype, c.axis, c.group, c.group >= 0 and s.groups[c.group].slides,
               [e if isinstance(e, int) else None for e in cache_param(s, c).shape or ()])
              for c in s.caches] for s in (first, second)]  # fmt: skip
    if kinds[0] != kinds[1]:
        raise ValueError(f"start: the caches of {first.function} and {second.function} differ in "
                         "number, dtype, shape, axis or which grow")  # fmt: skip


def _inputs(signature: Signature) -> list[Param]:
    excluded = {c.param for c in signature.caches} | {signature.length}
    return [p for k, p in enumerate(signature.params) if k not in excluded]


def _sizes(signature: Signature, inputs: Sequence[Any]) -> Values:
    """Return the values of the symbols that the inputs determine."""
    params = _inputs(signature)
    if len(params) != len(inputs):
        names = ", ".join(map(str, params))
        raise BoundaryError(f"{signature.function} takes {plural(len(params), 'input')} beside its "
                            f"caches, got {len(inputs)}: {names}")  # fmt: skip
    values: Values = {}
    for param, argument in zip(params, inputs, strict=True):
        for extent, size in zip(param.shape or (), getattr(argument, "shape", ()), strict=False):
            if isinstance(extent, str):
                values.setdefault(extent, int(size))
    return values
