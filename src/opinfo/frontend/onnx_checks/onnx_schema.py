"""Check an ONNX model against ONNX's own definitions: names, versions, attributes, arity, axes.

Converters read what they need and ignore the rest, so a model that contradicts itself would be
imported as one of the models that it could mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from ..checks.error import FrontendError, shortened

#: Domains of the operators of ONNX itself.
STANDARD = ("", "ai.onnx")
#: The IR version from which on a model names its operator sets.
FIRST_OPERATOR_SETS = 3
#: Bytes that a process can address.
ADDRESSES = 2**47
#: Largest product of a size and an integer.
LARGEST = 2**62
#: Operators with integers of any value: bounds of slices, and constants.
ANY_INTEGER = {"Slice", "Constant", "Clip"}
#: The largest number of operands in a schema that sets no limit.
UNLIMITED = 2**31 - 1
#: How far beyond the rank of its first input an operator's axis may be, below and above.
AXES = {
    "ArgMax": (0, 0), "ArgMin": (0, 0), "Softmax": (0, 0), "LogSoftmax": (0, 0),
    "Hardmax": (0, 0), "Concat": (0, 0), "Split": (0, 0), "Gather": (0, 0),
    "GatherElements": (0, 0), "ScatterElements": (0, 0), "Scatter": (0, 0), "TopK": (0, 0),
    "LpNormalization": (0, 0), "LayerNormalization": (0, 0), "Compress": (0, 0),
    "Flatten": (0, 1), "OneHot": (1, 1), "SplitToSequence": (0, 0), "TensorScatter": (0, 0),
}  # fmt: skip

#: Inputs that are vectors, by operator, from the operator set on in which they all are.
VECTORS = {
    "Squeeze": ("axes",), "Unsqueeze": ("axes",), "Split": ("split",), "Pad": ("pads", "axes"),
    "Slice": ("starts", "ends", "axes", "steps"), "Tile": ("repeats",),
    "Reshape": ("shape",), "InstanceNormalization": ("scale", "B"),
}  # fmt: skip
FIRST_VECTORS = 6


def check_model(model: Any) -> None:
    """Raise `FrontendError` for versions that do not exist and for names that are defined twice."""
    import onnx

    if model.ir_version > onnx.IR_VERSION:
        raise FrontendError(
            f"its IR version is {model.ir_version}, expected at most {onnx.IR_VERSION}: a newer "
            f"onnx package than {onnx.__version__} may read it"
        )
    newest = onnx.defs.onnx_opset_version()
    if not model.opset_import and model.ir_version >= FIRST_OPERATOR_SETS:
        raise FrontendError("it imports no operator set: add one of domain '' to opset_import")
    versions = {("" if e.domain in STANDARD else e.domain, e.version) for e in model.opset_import}
    for entry in model.opset_import:
        if entry.domain in STANDARD and not 1 <= entry.version <= newest:
            raise FrontendError(
                f"its operator set is version {entry.version}, expected 1 to {newest}"
                f" (onnx {onnx.__version__})"
            )
    _once((domain for domain, _ in versions), "the operator set of domain")
    _once((f"{f.domain}.{f.name}" for f in model.functions), "the function")
    for function in model.functions:
        _once(function.input, f"in the function '{function.name}', the input")
    check_graph(model.graph)


def check_graph(graph: Any) -> None:
    """Raise `FrontendError` for an input of a graph that is defined twice, or a weight otherwise.

    Some exporters write a weight twice.
    """
    _once((value.name for value in graph.input), "the input")
    weights: dict[str, Any] = {}
    types = {v.name: v.type.tensor_type.elem_type for v in graph.input}
    shapes = {v.name: v.type.tensor_type.shape for v in graph.input
              if v.type.tensor_type.HasField("shape")}  # fmt: skip
    for tensor in graph.initializer:
        if tensor.name in shapes and not _fits(tensor.dims, shapes[tensor.name].dim):
            name = shortened(tensor.name, 80)
            raise FrontendError(
                f"the weight '{name}' has the sizes {list(tensor.dims)}, which the input '{name}' "
                "does not have"
            )
        if types.get(tensor.name, 0) not in (0, tensor.data_type):
            name = shortened(tensor.name, 80)
            raise FrontendError(f"the weight '{name}' has another type than the input '{name}'")
        if weights.setdefault(tensor.name, tensor) != tensor:
            _once([tensor.name] * 2, "the weight")
    _once([*weights, *(s.values.name for s in graph.sparse_initializer)], "the weight")


def _fits(sizes: Sequence[int], dims: Sequence[Any]) -> bool:
    """Return whether sizes are those that an input declares; 0 or less stands for any."""
    return len(sizes) == len(dims) and all(
        dim.dim_value in (size, 0) or dim.dim_value < 0
        for size, dim in zip(sizes, dims, strict=True)
    )


def _once(names: Iterable[str], what: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise FrontendError(f"{what} '{shortened(twice[0], 80)}' is defined twice")


@lru_cache(maxsize=4096)
def schema_of(op: str, opset: int, domain: str) -> Any:
    """Return the `onnx.defs.OpSchema` of an operator; None if ONNX has none."""
    import onnx

    try:
        return onnx.defs.get_schema(op, opset, domain)
    except (onnx.defs.SchemaError, TypeError):  # TypeError: a version beyond 32 bits
        return None


def check_node(proto: Any, opset: int, domain: str) -> None:
    """Raise `FrontendError` for attributes and operands that the operator's schema does not have.

    Args:
        proto: The `onnx.NodeProto`. Operators without a schema, such as those of ONNX Runtime, only
            need each attribute once.
        opset: The version of the operator set.
        domain: The domain, empty for ONNX's own operators.
    """
    _once((a.name for a in proto.attribute), "the attribute")
    schema = schema_of(proto.op_type, opset, domain)
    if schema is None:
        return
    for attribute in proto.attribute:
        _check_attribute(attribute, schema, proto.op_type)
    attributes = {a.name for a in proto.attribute}
    for name, formal in schema.attributes.items():
        if formal.required and name not in attributes:
            raise FrontendError(f"its attribute '{name}' is missing")
    for names, low, high, formals, what in (
        (proto.input, schema.min_input, schema.max_input, schema.inputs, "input"),
        (proto.output, schema.min_output, schema.max_output, schema.outputs, "output"),
    ):
        if not low <= len(names) <= high:
            most = f" to {high}" if high < UNLIMITED else " or more"
            expected = f"{low}{most if low != high else ''}"
            raise FrontendError(f"it has {len(names)} {what}s, expected {expected}")
        for name, formal in zip(names, formals, strict=False):
            if what == "input" and not name and formal.option.name == "Single":
                raise FrontendError(f"its input '{formal.name}' is missing")
    missing = [k for k, name in enumerate(proto.input) if not name and _is_one_of_many(schema, k)]
    if missing:  # TVM's converters crash
        raise FrontendError(f"its input {missing[0]} is missing")


def _is_one_of_many(schema: Any, k: int) -> bool:
    """Return whether input `k` is one of any number of inputs, of which none may be absent."""
    formals = schema.inputs
    return bool(formals) and k >= len(formals) - 1 and formals[-1].option.name == "Variadic"


def _check_attribute(attribute: Any, schema: Any, op: str) -> None:
    from onnx import AttributeProto

    name = shortened(attribute.name, 80)
    known = schema.attributes.get(attribute.name)
    if known is None:
        names = ", ".join(sorted(schema.attributes)) or "none"
        raise FrontendError(f"unknown attribute '{name}'; the attributes of {op} are: {names}")
    expected = int(known.type.value)
    if attribute.type != expected:
        kinds = AttributeProto.AttributeType.Name
        got = kinds(attribute.type) if attribute.type <= 14 else str(attribute.type)
        raise FrontendError(f"the attribute '{name}' has type {got}, expected {kinds(expected)}")


def check_function(nodes: Iterable[Any], inside: int, outside: int) -> None:
    """Raise `FrontendError` for operators that are others in the model's operator set.

    Args:
        nodes: The nodes of a function of a model.
        inside: The version of the operator set that the function imports.
        outside: The version that the model imports; runtimes may take either.
    """
    for node in nodes if inside != outside else ():
        if node.domain in STANDARD:
            first, second = (schema_of(node.op_type, opset, "") for opset in (inside, outside))
            if (first and first.since_version) != (second and second.since_version):
                raise FrontendError(
                    f"its operator {node.op_type} differs between the operator sets {inside} of "
                    f"the function and {outside} of the model"
                )
        for attribute in node.attribute:
            check_function(attribute.g.node, inside, outside)


def check_axis(op: str, axis: int | None, rank: Callable[[], int]) -> None:
    """Raise `FrontendError` for the attribute `axis` of an operator that is outside its input."""
    if axis is None or op not in AXES:
        return
    below, above = AXES[op]
    count = rank()
    if not -count - below <= axis < count + above:
        raise FrontendError(
            f"axis is {axis}, expected {-count - below} to {count + above - 1} for {count} "
            "dimensions"
        )


def check_vectors(op: str, opset: int, ranks: Sequence[int | None]) -> None:
    """Raise `FrontendError` for an operand that is not a vector where ONNX says that it is one.

    Args:
        op: The operator of ONNX.
        opset: The version of the operator set.
        ranks: The number of dimensions of each input; None for absent ones.
    """
    names = VECTORS.get(op, ("axes",) if op.startswith("Reduce") else ())
    if not names or opset < FIRST_VECTORS:
        return
    schema = schema_of(op, opset, "")
    for formal, rank in zip(schema.inputs if schema else (), ranks, strict=False):
        if formal.name in names and rank not in (0, 1, None):  # a number stands for a vector of one
            raise FrontendError(f"its input '{formal.name}' has {rank} dimensions, expected 1")


def check_sizes(sizes: Sequence[Any], itemsize: int) -> None:
    """Raise `FrontendError` for a tensor with a negative size, or too many bytes for any machine.

    Args:
        sizes: The extents; those that are not an `int` are symbolic.
        itemsize: The bytes of an element.
    """
    known = [size for size in sizes if isinstance(size, int)]
    total = itemsize
    for size in known:
        total *= size
    if any(size < 0 for size in known) or total > ADDRESSES:
        raise FrontendError(
            f"a tensor of {_text(sizes)} elements, expected sizes from 0 and at most "
            f"2**{ADDRESSES.bit_length() - 1} bytes"
        )


def check_growth(op: str, factors: Iterable[int], sizes: Iterable[Any]) -> None:
    """Raise `FrontendError` if an operator's result has sizes that overflow 64 bits.

    TVM's arithmetic on sizes wraps, and the result would look like a small tensor.

    Args:
        op: The operator.
        factors: What it multiplies sizes by or adds to them: strides, pads, repeats.
        sizes: The extents of its inputs.
    """
    if op in ANY_INTEGER:
        return
    factor = max((abs(x) for x in factors), default=0)
    size = max((x for x in sizes if isinstance(x, int)), default=1)
    if factor * max(size, 1) > LARGEST:
        raise FrontendError(f"{factor} times a size of {size} overflows")


def _text(sizes: Sequence[Any]) -> str:
    return shortened(" x ".join(str(s) for s in sizes[:16]) or "no", 200)
