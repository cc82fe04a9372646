"""Check that JSON of `tvm.ir.save_json` is a well-typed graph of IR, before TVM builds it.

TVM's reader sets fields without checks, and some invalid objects crash later. This check requires
that every node has an IR type, with exactly the fields of TVM's reflection, each of its declared
type, and refers to earlier nodes only, which excludes cycles. Executable objects are not IR: a
`runtime.Module` in JSON is machine code.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ....analysis.support.ir.empty_constants import is_unreadable
from .ir_fields import NULLABLE, ancestors, fields_of
from .json_values import LEAVES, NAMED, REMEDIES, tensor_extents

#: Limit on nesting, because TVM's visitors are recursive. Modules of real models have 30.
DEPTH = 400
#: Limit on the uses of a node, counted along all paths, because not every visitor of TVM memoises.
#: Modules of real models have up to 20 for each node.
USES = 1000
#: Limit on the dimensions of a tensor, NumPy's: an operator is lowered to a loop for each, nested.
RANK = 64
_SHAPED = {"relax.TensorType", "tirx.Buffer", "tirx.BufferType"}


class BadGraph(ValueError):
    """The graph is invalid; the message names the first invalid node and says why."""


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
    checker = _NodeChecker(nodes)
    for place, node in enumerate(nodes):
        try:
            checker.node(place, node)
        except BadGraph as error:
            name = node.get("type") if isinstance(node, dict) else node
            raise BadGraph(f"node {place} ({name!r:.60}): {error}") from error
    return json.dumps({"root_index": root, "nodes": nodes})


class _NodeChecker:
    """Checks the nodes in order, with the depth of each and the number of its uses."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self.depth, self.uses = [0] * len(nodes), [1] * len(nodes)
        self.most = USES * (len(nodes) + 100)

    def node(self, place: int, node: Any) -> None:
        """Check a node by the kind of its data."""
        if not isinstance(node, dict) or not isinstance(kind := node.get("type"), str):
            raise BadGraph("expected an object with a type")
        if not node.keys() <= {"type", "data"}:
            raise BadGraph(f"unknown keys {sorted(node.keys() - {'type', 'data'})!r:.60}")
        data = node.get("data")
        if kind in LEAVES:
            if not LEAVES[kind](data):
                raise BadGraph(f"invalid value {data!r:.40}")
            if kind == "ffi.Tensor" and is_unreadable(shape := tensor_extents(str(data))):
                raise BadGraph(f"TVM cannot load a tensor of shape {shape}, which has no elements")
        elif kind in ("ffi.Array", "ffi.List", "ffi.Map", "ffi.Dict"):
            self._container(place, kind, data)
        elif kind in NAMED:
            if not (isinstance(data, str) and NAMED[kind](data)):
                raise BadGraph(f"unknown name {data!r:.60}{REMEDIES.get(kind, '')}")
        else:
            self._object(place, kind, data)
        if self.depth[place] > DEPTH:
            raise BadGraph(f"it is nested more than {DEPTH} deep")
        if self.uses[place] > self.most:
            raise BadGraph(f"it uses other nodes more than {self.most} times")

    def _container(self, place: int, kind: str, data: Any) -> None:
        """Check that the items are earlier nodes."""
        if not isinstance(data, list):
            raise BadGraph("expected a list")
        for index in data:
            self._refer(place, index)
        if kind in ("ffi.Map", "ffi.Dict") and len(data) % 2:
            raise BadGraph("expected pairs of keys and values")

    def _object(self, place: int, kind: str, data: Any) -> None:
        """Check that the fields are those of the type, each of its declared type."""
        fields = fields_of(kind)
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
        """Count a use of an earlier node."""
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
            return expected in NULLABLE
        return kind == expected or expected in ancestors(kind)


def _name(schema: dict[str, Any]) -> str:
    args = ", ".join(map(_name, schema.get("args", ())))
    return f"{schema['type']}[{args}]" if args else str(schema["type"])
