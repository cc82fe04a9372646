"""Check that JSON of `tvm.ir.save_json` is a well-typed graph of IR, before TVM builds it.

TVM's reader sets fields without checks, and some invalid objects crash later. This check requires
that every node has an IR type, with exactly the fields of TVM's reflection, each of its declared
type, and refers to earlier nodes only, which excludes cycles. Executable objects are not IR: a
`runtime.Module` in JSON is machine code.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm_ffi import core

from ...analysis.registry.registry import load_all
from ...analysis.support.empty_constants import is_unreadable
from ...analysis.support.tvm_compat import MatchBufferRegion, TensorRegion, type_key

#: Base types of IR; derived types are included.
BASES = (
    "ir.Expr", "ir.Type", "ir.Attrs", "ir.GlobalInfo", "ir.Range", "ir.SourceMap", "ir.Source",
    "ir.SourceName", "ir.Span", "ir.IRModule", "ir.EnvFunc", "prim.CommReducer", "tirx.Stmt",
    "tirx.IterVar", "tirx.IndexMap", "tirx.Layout", "tirx.Iter", "tirx.Axis", "tirx.CommReducer",
    "te.CommReducer", "s_tir.SLayout", type_key(MatchBufferRegion), type_key(TensorRegion),
    "relax.expr.Binding",
    "relax.expr.BindingBlock", "relax.distributed.DeviceMesh", "relax.distributed.Placement",
    "relax.distributed.PlacementSpec", "target.Target", "target.TargetKind",
)  # fmt: skip
#: TVM functions that a type may name; type inference calls them.
INFERENCE = {"tvm.relax.type.infer_by_ty_args", "tvm.relax.type.infer_view_ty"}
#: Limit on nesting, because TVM's visitors are recursive. Modules of real models have 30.
DEPTH = 400
#: Limit on the uses of a node, counted along all paths, because not every visitor of TVM memoises.
#: Modules of real models have up to 20 for each node.
USES = 1000
#: Limit on the dimensions of a tensor, NumPy's: an operator is lowered to a loop for each, nested.
RANK = 64
_SHAPED = {"relax.TensorType", "tirx.Buffer", "tirx.BufferType"}
#: Nullable types that reflection does not mark as such.
_NULL = {"ir.Span", "ir.Attrs"}
#: Fields that TVM declares as any object but assumes to have a type.
_NARROWER = {
    ("tirx.IndexMap", "inverse_index_map"): {
        "type": "Optional", "args": [{"type": "tirx.IndexMap"}]
    },
}  # fmt: skip
_INT64 = range(-(2**63), 2**63)
#: Header of a tensor: magic, reserved, device, rank, dtype; extents, length and data follow.
_TENSOR = struct.Struct("<QQiiiBBH")
_MAGIC = 0xDD5E40F096B4A13F


class BadGraph(ValueError):
    """The graph is invalid; the message names the first invalid node and says why."""


@dataclass(frozen=True)
class _Field:
    schema: dict[str, Any]
    inline: Callable[[Any], bool] | None  # None: the value is the index of a node


def checked(text: str | bytes) -> str:
    """Check a graph of IR and return its JSON, serialised again so that TVM reads what was checked.

    Raises:
        BadGraph: The graph is invalid.
    """
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadGraph(f"not JSON: {error}") from error
    if not isinstance(graph, dict) or not isinstance(nodes := graph.get("nodes"), list):
        raise BadGraph("expected an object with root_index and nodes")
    root = graph.get("root_index")
    if type(root) is not int or not 0 <= root < len(nodes):
        raise BadGraph(f"root_index is {root!r:.40}, expected one of {len(nodes)} nodes")
    checker = _Checker(nodes)
    for place, node in enumerate(nodes):
        try:
            checker.node(place, node)
        except BadGraph as error:
            name = node.get("type") if isinstance(node, dict) else node
            raise BadGraph(f"node {place} ({name!r:.60}): {error}") from error
    return json.dumps({"root_index": root, "nodes": nodes})


class _Checker:
    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.depth, self.uses = [0] * len(nodes), [1] * len(nodes)
        self.most = USES * (len(nodes) + 100)

    def node(self, place: int, node: Any) -> None:
        if not isinstance(node, dict) or not isinstance(kind := node.get("type"), str):
            raise BadGraph("expected an object with a type")
        if not node.keys() <= {"type", "data"}:
            raise BadGraph(f"unknown keys {sorted(node.keys() - {'type', 'data'})!r:.60}")
        data = node.get("data")
        if kind in _LEAVES:
            if not _LEAVES[kind](data):
                raise BadGraph(f"invalid value {data!r:.40}")
            if kind == "ffi.Tensor" and is_unreadable(shape := _extents(str(data))):
                raise BadGraph(f"TVM cannot load a tensor of shape {shape}, which has no elements")
        elif kind in ("ffi.Array", "ffi.List", "ffi.Map", "ffi.Dict"):
            self._container(place, kind, data)
        elif kind in _NAMED:
            if not (isinstance(data, str) and _NAMED[kind](data)):
                raise BadGraph(f"unknown name {data!r:.60}{_REMEDIES.get(kind, '')}")
        else:
            self._object(place, kind, data)
        if self.depth[place] > DEPTH:
            raise BadGraph(f"it is nested more than {DEPTH} deep")
        if self.uses[place] > self.most:
            raise BadGraph(f"it uses other nodes more than {self.most} times")

    def _container(self, place: int, kind: str, data: Any) -> None:
        if not isinstance(data, list):
            raise BadGraph("expected a list")
        for index in data:
            self._refer(place, index)
        if kind in ("ffi.Map", "ffi.Dict") and len(data) % 2:
            raise BadGraph("expected pairs of keys and values")

    def _object(self, place: int, kind: str, data: Any) -> None:
        fields = _fields(kind)
        if fields is None:
            raise BadGraph("not a type of IR")
        if not isinstance(data, dict) or data.keys() != fields.keys():
            shown = ", ".join(sorted(data)) if isinstance(data, dict) else repr(data)
            raise BadGraph(f"its fields are {shown:.120}; expected {', '.join(sorted(fields))}")
        for name, field in fields.items():
            value = data[name]
            if field.inline is not None:
                if not field.inline(value):
                    raise BadGraph(f"{name} is {value!r:.40}, expected {_name(field.schema)}")
            elif not self._is(self._refer(place, value), field.schema):
                got = self.nodes[value]["type"]
                raise BadGraph(f"{name} is of type {got}, expected {_name(field.schema)}")
        shape = self.nodes[data["shape"]] if kind in _SHAPED else {"type": ""}
        rank = len(shape["data"]) if shape["type"] == "ffi.Array" else data.get("ndim", 0)
        if kind in _SHAPED and rank > RANK:
            raise BadGraph(f"a tensor of {rank} dimensions, expected at most {RANK}")

    def _refer(self, place: int, index: Any) -> int:
        if type(index) is not int or not 0 <= index < place:
            raise BadGraph(f"refers to node {index!r:.40}, expected an earlier one")
        self.depth[place] = max(self.depth[place], self.depth[index] + 1)
        self.uses[place] += self.uses[index]
        return index

    def _is(self, index: int, schema: dict[str, Any]) -> bool:
        """Return whether a node has the type of a schema."""
        expected, args = schema["type"], schema.get("args", ())
        kind: str = self.nodes[index]["type"]
        if expected == "Any":
            return True
        if expected == "Optional":
            return kind == "None" or self._is(index, args[0])
        if expected == "Variant":
            return any(self._is(index, arg) for arg in args)
        if expected in ("ffi.Array", "ffi.List"):
            data = self.nodes[index]["data"] if kind == expected else ()
            return kind == expected and (not args or all(self._is(i, args[0]) for i in data))
        if expected in ("ffi.Map", "ffi.Dict"):
            data = self.nodes[index]["data"] if kind == expected else ()
            return kind == expected and (not args or (
                all(self._is(i, args[0]) for i in data[::2])
                and all(self._is(i, args[1]) for i in data[1::2])
            ))  # fmt: skip
        if expected in ("ffi.String", "std::string"):
            return kind == "ffi.String"
        if expected == "ffi.BigInt":
            return kind in ("int", "ffi.BigInt")
        if kind == "None":
            return expected in _NULL
        return kind == expected or expected in _ancestors(kind)


@cache
def _fields(kind: str) -> dict[str, _Field] | None:
    """Return the fields of a type; None if it is not a type of IR."""
    if not {kind, *_ancestors(kind)} & set(BASES):
        return None
    fields: dict[str, _Field] = {}
    info = _info(kind)
    while info is not None:
        for field in info.fields:
            schema = json.loads(field.metadata["type_schema"])
            schema = _NARROWER.get((kind, field.name), schema)
            fields.setdefault(
                field.name, _Field(schema, _INLINE.get(field.field_static_type_index))
            )
        info = info.parent_type_info
    return fields


@cache
def _ancestors(kind: str) -> frozenset[str]:
    info, ancestors = _info(kind), set()
    while info is not None and info.parent_type_info is not None:
        info = info.parent_type_info
        ancestors.add(str(info.type_key))
    return frozenset(ancestors)


def _info(kind: str) -> Any:
    try:
        core._object_type_key_to_index(kind)
        return core._lookup_or_register_type_info_from_type_key(kind)
    except Exception:  # unknown
        return None


def _name(schema: dict[str, Any]) -> str:
    args = ", ".join(map(_name, schema.get("args", ())))
    return f"{schema['type']}[{args}]" if args else str(schema["type"])


def _is_int(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _is_float(value: Any) -> bool:
    return type(value) in (int, float)


def _is_dtype(value: Any) -> bool:
    """Return whether a value is a dtype that TVM accepts."""
    try:
        return isinstance(value, str) and len(value) < 40 and bool(tvm_ffi.dtype(value))
    except Exception:  # the parser of dtypes raises various types
        return False


def _is_device(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_int, value))


def _is_tensor(value: Any) -> bool:
    """Return whether a value is a CPU tensor whose length fits its shape and dtype."""
    try:
        raw = base64.b64decode(value, validate=True)
        magic, _, device, number, rank, _, bits, lanes = _TENSOR.unpack_from(raw)
        *extents, length = struct.unpack_from(f"<{rank + 1}q", raw, _TENSOR.size)
    except (TypeError, ValueError, binascii.Error, struct.error):
        return False
    stored = len(raw) - _TENSOR.size - 8 * (rank + 1)
    size = math.prod(extents) * ((bits * lanes + 7) // 8)
    usual = magic == _MAGIC and (device, number) == (1, 0) and min(extents, default=0) >= 0
    packed = bits * lanes >= 8 or (math.prod(extents) * bits * lanes + 7) // 8
    return usual and rank >= 0 and length == stored and (size == stored or packed == stored)


def _extents(value: str) -> tuple[int, ...]:
    """Return the shape of a tensor that was checked; only the text of the shape is decoded."""
    rank = _TENSOR.unpack_from(_start(value, _TENSOR.size))[4]
    raw = _start(value, _TENSOR.size + 8 * rank)
    return struct.unpack_from(f"<{rank}q", raw, _TENSOR.size)


def _start(value: str, count: int) -> bytes:
    """Return at least the first bytes of what a text in base64 stands for."""
    return base64.b64decode(value[: (count + 2) // 3 * 4])


def _is_bigint(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 100


_LEAVES: dict[str, Callable[[Any], bool]] = {
    "None": lambda v: v is None,
    "bool": lambda v: type(v) is bool,
    "int": _is_int,
    "float": _is_float,
    "DataType": _is_dtype,
    "Device": _is_device,
    "ffi.String": lambda v: isinstance(v, str),
    "ffi.Shape": lambda v: isinstance(v, list) and all(map(_is_int, v)),
    "ffi.BigInt": _is_bigint,
    "ffi.Tensor": _is_tensor,
}
_INLINE = {1: _is_int, 2: lambda v: type(v) is bool, 3: _is_float, 5: _is_dtype, 6: _is_device}


@cache
def _operators() -> frozenset[str]:
    return frozenset(map(str, tvm.ir.Op.list_op_names()))


def _registered(name: str) -> bool:
    """Load the installed recognisers; return whether one registers this operator."""
    load_all()
    return name in map(str, tvm.ir.Op.list_op_names())


@cache
def _kinds() -> frozenset[str]:
    return frozenset(map(str, tvm.target.Target.list_kinds()))


#: What to do about an unknown name.
_REMEDIES = {
    "ir.Op": "; install the package that registers it, with an entry point of opinfo.recognisers"
}
#: Types whose data is a name that TVM looks up.
_NAMED: dict[str, Callable[[str], bool]] = {
    "ir.Op": lambda name: name in _operators() or _registered(name),
    "ir.EnvFunc": lambda name: name in INFERENCE,
    "ir.SourceName": lambda name: True,
    "target.TargetKind": lambda name: name in _kinds(),
    "tirx.Axis": lambda name: name.isidentifier() and len(name) < 40,
}
