"""Models of ONNX's operator tests with one thing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, nan
from typing import Any

import numpy as np
from onnx import AttributeProto, defs, helper, numpy_helper

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Any]
#: A name of the change, the model, and the values of its inputs.
Changed = tuple[str, Any, Feeds]
TYPES = ("float32", "int32", "int64", "bool", "float64", "uint8", "float16")
#: The largest number of elements of an input that becomes a weight.
FEW = 64


def with_weights(model: Any, inputs: Sequence[Any]) -> tuple[Any, Feeds]:
    """Return a model whose small integer inputs, all but the first, are weights."""
    changed, feeds, kept = copy.deepcopy(model), {}, []
    for k, (entry, value) in enumerate(zip(list(changed.graph.input), inputs, strict=False)):
        is_array = isinstance(value, np.ndarray) and entry.type.HasField("tensor_type")
        if k and is_array and value.dtype.kind in "iub" and value.size <= FEW:
            changed.graph.initializer.append(numpy_helper.from_array(value, entry.name))
            continue
        kept.append(entry)
        feeds[entry.name] = value
    del changed.graph.input[:]
    changed.graph.input.extend(kept)
    return changed, feeds


def changes(model: Any, feeds: Feeds) -> Iterator[Changed]:
    """Yield models with one change of the first node or of what it reads."""
    for part in (_attributes, _names, _inputs, _weights):
        yield from part(model, feeds)


def _edited(model: Any, edit: Callable[[Any], object]) -> Any:
    changed = copy.deepcopy(model)
    edit(changed)
    return changed


def _attributes(model: Any, feeds: Feeds) -> Iterator[Changed]:
    node = model.graph.node[0]
    opset = next((e.version for e in model.opset_import if e.domain == node.domain), 1)
    have = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    for name, schema in defs.get_schema(node.op_type, opset, node.domain).attributes.items():
        for value in [*_values(int(schema.type.value), have.get(name)), None]:

            def edit(changed: Any, name: str = name, value: Any = value) -> None:
                own = changed.graph.node[0].attribute
                others = [a for a in own if a.name != name]
                del own[:]
                own.extend(others)
                if value is not None:
                    own.append(helper.make_attribute(name, value))

            yield f"{name}={str(value)[:40]}", _edited(model, edit), feeds


def _values(kind: int, current: Any) -> list[Any]:
    """Return values of an attribute: of its type but outside of its range, and of other types."""
    if kind == AttributeProto.INT:
        return [-1, -2, 0, 2, 7, 100, -100, 2**31, 2**62, -(2**63), 1.5, [1], "x"]
    if kind == AttributeProto.FLOAT:
        return [nan, inf, -1.0, 0.0, 1e30, 1, "x"]
    if kind == AttributeProto.STRING:
        return ["nope", "", 3]
    if kind == AttributeProto.INTS:
        own = list(current or [1, 1])
        return [[-x - 1 for x in own], [0] * len(own), [*own[:-1], -1], own + own[:1],
                [2**31] * len(own), [2**62] * len(own), [x + 5 for x in own],
                own[:1] * len(own), [100, *own[1:]], [float(x) for x in own], 1]  # fmt: skip
    if kind == AttributeProto.FLOATS:
        return [[nan], [-1.0, -1.0], [1, 1]]
    return [["nope"]] if kind == AttributeProto.STRINGS else []


def _names(model: Any, feeds: Feeds) -> Iterator[Changed]:
    for k in range(len(model.graph.node[0].input)):
        for name in ("", "nowhere", model.graph.node[0].output[0]):

            def rename(changed: Any, k: int = k, name: str = name) -> None:
                changed.graph.node[0].input[k] = name

            yield f"input {k} is {name!r}", _edited(model, rename), feeds
    edits: dict[str, Callable[[Any], object]] = {
        "an input more": lambda m: m.graph.node[0].input.append(m.graph.node[0].output[0]),
        "an output twice": lambda m: m.graph.node[0].output.append(m.graph.node[0].output[0]),
        "an output more": lambda m: m.graph.node[0].output.append("more"),
        "another domain": lambda m: setattr(m.graph.node[0], "domain", "com.nowhere"),
        "no operator set": lambda m: m.ClearField("opset_import"),
    }
    for name, edit in edits.items():
        yield name, _edited(model, edit), feeds


def _inputs(model: Any, feeds: Feeds) -> Iterator[Changed]:
    for k, entry in enumerate(model.graph.input):
        value = feeds[entry.name]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
            continue
        others = [value.astype(t) for t in TYPES if value.dtype != t]
        for array in [*others, *(np.resize(value, shape) for shape in _shapes(value.shape))]:

            def retype(changed: Any, k: int = k, array: Array = array) -> None:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                name = changed.graph.input[k].name
                new = helper.make_tensor_value_info(name, kind, array.shape)
                changed.graph.input[k].CopyFrom(new)

            what = f"{entry.name}: {array.dtype} {list(array.shape)}"
            yield what, _edited(model, retype), {**feeds, entry.name: array}


def _shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    if not shape:
        return [(1,), (2,), (1, 1)]
    return [shape[1:], shape[:-1], (*shape[:-1], shape[-1] + 1), (shape[0] + 1, *shape[1:]),
            (*shape, 1), (1, *shape)]  # fmt: skip


def _weights(model: Any, feeds: Feeds) -> Iterator[Changed]:
    for k, tensor in enumerate(model.graph.initializer):
        value = numpy_helper.to_array(tensor)
        others = [np.full_like(value, number) for number in (-1, 0, 100) if value.dtype != "uint8"]
        others += [value.astype("float32"), value[None], value.reshape(-1)[:0]]
        for array in others:

            def replace(changed: Any, k: int = k, array: Array = array) -> None:
                own = changed.graph.initializer[k]
                own.CopyFrom(numpy_helper.from_array(array, own.name))

            what = f"weight {tensor.name}: {array.dtype} {array.tolist()}"
            yield what[:80], _edited(model, replace), feeds
        edits: dict[str, Callable[[Any], object]] = {
            "a byte less": lambda w: setattr(w, "raw_data", w.raw_data[:-1]),
            "twice the bytes": lambda w: setattr(w, "raw_data", w.raw_data * 2),
            "type 99": lambda w: setattr(w, "data_type", 99),
            "a size of -1": lambda w: w.dims.append(-1),
        }
        for name, change in edits.items():

            def edit(changed: Any, k: int = k, change: Any = change) -> None:
                change(changed.graph.initializer[k])

            yield f"weight {tensor.name}: {name}", _edited(model, edit), feeds
