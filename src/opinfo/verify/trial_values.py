"""Arguments of trial runs as files: tensors, and JSON that says how they are nested."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi


@dataclass(frozen=True)
class TrialCall:
    """A function of a library, and its arguments.

    Arguments are tensors, tuples of arguments, `ShapeArgument`, and numbers.
    """

    function: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class ShapeArgument:
    """The value of a parameter that is a shape."""

    extents: tuple[int, ...]


def tensors_of(value: Any) -> Iterator[Any]:
    """Yield the tensors of an argument, in order."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from tensors_of(part)
    elif isinstance(value, tvm.runtime.Tensor):
        yield value


def flat(result: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for part in result for tensor in flat(part)]


def layout_of(calls: Sequence[TrialCall]) -> list[Any]:
    """Return for JSON how the tensors of calls are nested, by their places in `tensors_of`."""
    places = iter(range(sum(1 for c in calls for _ in tensors_of(c.values))))

    def described(value: Any) -> Any:
        if isinstance(value, tuple):
            return {"tuple": [described(part) for part in value]}
        if isinstance(value, ShapeArgument):
            return {"shape": list(value.extents)}
        return {"tensor": next(places)} if isinstance(value, tvm.runtime.Tensor) else value

    return [[call.function, [described(v) for v in call.values]] for call in calls]


def restored(layout: Any, tensors: Sequence[Any]) -> Any:
    """Return the argument that `layout_of` describes."""
    if not isinstance(layout, dict):
        return layout
    ((kind, value),) = layout.items()
    if kind == "tensor":
        return tensors[value]
    return tvm_ffi.Shape(value) if kind == "shape" else tuple(restored(v, tensors) for v in value)


def save(tensors: Sequence[Any], path: Path) -> None:
    """Write tensors to a file. TVM's format cannot have those without elements: names say these."""
    named = {}
    for k, tensor in enumerate(tensors):
        extents = list(map(int, tensor.shape))
        if 0 in extents:
            named[f"{k} {tensor.dtype} {json.dumps(extents)}"] = tvm.runtime.empty((1,), "uint8")
        else:
            named[str(k)] = tensor
    tvm.runtime.save_param_dict_to_file(named, str(path))


def load(path: Path) -> list[Any]:
    """Return the tensors that `save` wrote."""
    out: dict[int, Any] = {}
    for name, tensor in tvm.runtime.load_param_dict_from_file(str(path)).items():
        k, *empty = str(name).split(" ", 2)
        out[int(k)] = tvm.runtime.empty(json.loads(empty[1]), empty[0]) if empty else tensor
    return [out[k] for k in range(len(out))]


def as_tensors(value: Any) -> Any:
    """Return an argument with tensors instead of arrays."""
    if isinstance(value, tuple):
        return tuple(map(as_tensors, value))
    return tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value
