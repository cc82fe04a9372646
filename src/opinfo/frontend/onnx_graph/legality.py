"""Whether a node is legal for the types of its inputs, by ONNX's own type inference.

Converters read what they need. A negative dilation, or pads for fewer axes, would become another
operator, and code that reads outside of its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..onnx_checks.einsum_equation import why_malformed
from .onnx_node import dims_of
from .scalars import is_expr
from .values import NotConvertible, TensorValue

#: Limit on the integers of a constant input whose values count, such as axes and repeats.
FEW = 64
#: Operators of real models whose inputs have other ranks than ONNX says, and that can be executed:
#: `AffineGrid` as a function has a `Range` of vectors of one element.
TOLERATED = {"Gemm", "Range"}


def why_illegal(proto: Any, scope: Mapping[str, Any], opset: int) -> str:
    """Return why no runtime can execute a node of ONNX's domain; empty if nothing is known.

    Args:
        proto: The `onnx.NodeProto`.
        scope: The values of its inputs by name; sizes that are symbols are taken as unknown. Nodes
            with branches, and those with attributes of a function's call, are not judged.
        opset: The version of the operator set.
    """
    from onnx.checker import ValidationError
    from onnx.shape_inference import InferenceError

    values = {name: scope.get(name) for name in proto.input if name}
    if proto.domain not in ("", "ai.onnx"):
        return ""
    if any(a.ref_attr_name or a.HasField("g") for a in proto.attribute):
        return ""
    if proto.op_type == "Einsum" and (reason := why_malformed(proto)):
        return reason
    try:
        _inferred(proto, values, opset)
    except InferenceError as error:
        text = str(error).strip().splitlines()[0].rpartition("] ")[2]
        return _bad_axis(proto, values) or text if text.endswith("attribute axis") else text
    except ValidationError as error:  # also for operators that are deprecated, which models have
        return str(error).strip() if "unsupported type" in str(error) else ""
    except Exception:  # onnx raises various types for nodes that are none; the caller has an error
        return ""
    return ""


def _bad_axis(proto: Any, values: Mapping[str, Any]) -> str:
    """Return what an axis is and may be, where ONNX's message has neither, as for Unique."""
    axis = next((int(a.i) for a in proto.attribute if a.name == "axis"), None)
    value = values.get(proto.input[0]) if proto.input else None
    if axis is None or not isinstance(value, TensorValue):
        return ""
    rank = value.elements.ndim if value.elements is not None else len(dims_of(value.expr))
    return f"axis is {axis}, expected {-rank} to {rank - 1}, as its input has {rank} dimensions"


def contradicts_types(
    proto: Any,
    inputs: Sequence[TensorValue | None],
    results: Sequence[np.ndarray[Any, Any]],
    opset: int,
) -> bool:
    """Return whether a result of a node has another dtype or shape than ONNX infers.

    Where ONNX infers no dtype, nothing confirms the result, so it counts as contradicted.

    Args:
        proto: The `onnx.NodeProto`.
        inputs: The value of each input, None if it is absent.
        results: An array for each output; that of an output without a name is not judged.
        opset: The version of the operator set.
    """
    from onnx import helper

    named = dict(zip(proto.input, inputs, strict=False))
    try:
        types = _inferred(proto, {k: v for k, v in named.items() if k}, opset)
    except Exception:  # onnx raises various types where it infers nothing
        return proto.op_type not in TOLERATED
    for name, result in zip(proto.output, results, strict=False):
        if not name:
            continue
        kind = types[name].tensor_type if name in types else None
        if kind is None or not kind.elem_type:
            return True
        if helper.tensor_dtype_to_np_dtype(kind.elem_type) != result.dtype:
            return True
        dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        if kind.HasField("shape") and (
            len(dims) != result.ndim
            or any(d not in (None, size) for d, size in zip(dims, result.shape, strict=True))
        ):
            return True
    return False


def _inferred(proto: Any, values: Mapping[str, Any], opset: int) -> dict[str, Any]:
    """Return the `onnx.TypeProto` of each output, given the values of the inputs."""
    import onnx
    from onnx.shape_inference import infer_node_outputs

    schema = onnx.defs.get_schema(proto.op_type, opset, "")
    types = {name: _type(value) for name, value in values.items()}
    opsets = [onnx.helper.make_opsetid("", opset)]
    return dict(infer_node_outputs(schema, proto, types, _integers(values), opset_imports=opsets))


def _integers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that are few integers, or empty, as `onnx.TensorProto`.

    An empty input, such as the scales of a Resize, counts as absent if its data is known.
    """
    from onnx import numpy_helper

    return {
        name: numpy_helper.from_array(np.asarray(value.elements, order="C"), name)
        for name, value in values.items()
        if isinstance(value, TensorValue) and value.is_constant and value.elements is not None
        and (value.elements.dtype.kind == "i" or not value.elements.size)
        and value.elements.size <= FEW
    }  # fmt: skip


def _type(value: Any) -> Any:
    """Return the `onnx.TypeProto` of a tensor; raises `NotConvertible` for others."""
    from onnx import helper

    if not isinstance(value, TensorValue):
        raise NotConvertible("not a tensor")
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype))
    shape = value.elements.shape if value.elements is not None else dims_of(value.expr)
    return helper.make_tensor_type_proto(kind, [None if is_expr(d) else int(d) for d in shape])
