"""A writer of ONNX graphs: nodes are kept until the end, so that a writer may look back at them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import tirx

from ....backend.region import Array, Tensor
from ....patterns.extents.symbolic_shapes import offset, settled

#: ONNX's operators for arithmetic of extents; quotients and remainders are composed.
_ARITHMETIC = {"Add": "Add", "Sub": "Sub", "Mul": "Mul", "Min": "Min", "Max": "Max",
               "FloorMod": "Mod"}  # fmt: skip


@dataclass(frozen=True)
class NodeProto:
    """A node; ``more`` are its outputs after the first one, ``domain`` is empty for ONNX's own."""

    op: str
    inputs: tuple[str, ...]
    output: str
    attrs: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    domain: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.output, *self.more)


class GraphWriter:
    """Nodes and constants of one region; names are ``v<number>``.

    Attributes:
        nodes: The nodes by their outputs, in order.
        arrays: The constants by name.
        tensors: The tensors of the region by name.
        readers: How many operators of the region read a name, and how many results it is.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeProto] = {}
        self.arrays: dict[str, Array] = {}
        self.tensors: dict[str, Tensor] = {}
        self.readers: Counter[str] = Counter()
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def node(self, op: str, inputs: Iterable[str], **attrs: Any) -> str:
        """Add a node; returns the name of its output."""
        proto = NodeProto(op, tuple(inputs), self.name(), attrs)
        self.nodes[proto.output] = proto
        return proto.output

    def nodes_of(
        self, op: str, inputs: Iterable[str], count: int, domain: str = "", **attrs: Any
    ) -> tuple[str, ...]:
        """Add a node with several outputs; returns their names."""
        proto = NodeProto(op, tuple(inputs), self.name(), attrs,
                         tuple(self.name() for _ in range(count - 1)), domain)  # fmt: skip
        self.nodes[proto.output] = proto
        return proto.outputs

    def constant(self, array: Any) -> str:
        name = self.name()
        self.arrays[name] = np.asarray(array, order="C")
        return name

    def ints(self, values: Iterable[Any]) -> str:
        """A vector of int64."""
        return self.constant(np.asarray([int(v) for v in values], "int64"))

    def scalar(self, value: Any, dtype: str) -> str:
        return self.constant(np.asarray(value).astype(dtype))

    def transpose(self, name: str, axes: Sequence[int]) -> str:
        """A tensor with its axes in another order; constants are transposed here."""
        if list(axes) == list(range(len(axes))):
            return name
        if name in self.arrays:
            return self.constant(np.ascontiguousarray(self.arrays[name].transpose(axes)))
        return self.node("Transpose", [name], perm=[int(a) for a in axes])

    def reshape(self, name: str, shape: Sequence[int]) -> str:
        """A tensor in a static shape, in which -1 and 0 have ONNX's meaning."""
        if name in self.arrays:
            return self.constant(self.arrays[name].reshape(shape))
        return self.node("Reshape", [name, self.ints(shape)])

    def number(self, name: str) -> float | None:
        """The value of a constant with one element; None for other tensors."""
        array = self.arrays.get(name)
        return None if array is None or array.size != 1 else array.reshape(()).item()

    def before(self, name: str, *ops: str) -> NodeProto | None:
        """The node that produces a tensor, if it is one of these."""
        node = self.nodes.get(name)
        return node if node is not None and node.op in ops else None

    def vector(self, extents: Iterable[Any]) -> str:
        """A vector of int64 of extents, some of which may be symbolic."""
        extents = list(extents)
        if all(isinstance(e, int) for e in extents):
            return self.ints(extents)
        if len(extents) == 1:
            return self._extent(extents[0])
        return self.node("Concat", map(self._extent, extents), axis=0)

    def _extent(self, extent: Any) -> str:
        """A vector of int64 with one extent: that of a tensor, or arithmetic over such extents.

        Raises:
            ValueError: No tensor of the region has the extent.
        """
        if isinstance(extent, (int, tirx.IntImm)):
            return self.ints([int(extent)])
        known = [e for tensor in self.tensors.values() for e in tensor.shape]
        extent = settled(extent, known)
        if isinstance(extent, tirx.IntImm):
            return self.ints([int(extent)])
        if (found := self._of_a_tensor(extent)) is not None:
            return found
        parts = [self._extent(e) for e in operands_of(extent)]
        if not parts:
            raise ValueError(f"no tensor has the extent {extent}")
        kind = type(extent).__name__
        if kind == "Cast":
            return parts[0]
        if kind != "FloorDiv":
            return self.node(_ARITHMETIC[kind], parts)
        whole = self.node("Sub", [parts[0], self.node("Mod", parts)])
        return self.node("Div", [whole, parts[1]])

    def _of_a_tensor(self, extent: Any) -> str | None:
        """The extent of a tensor, plus a number if need be; None if no tensor is that close."""
        places = [(offset(extent, other), name, axis) for name, tensor in self.tensors.items()
                  for axis, other in enumerate(tensor.shape)]  # fmt: skip
        near = [(abs(distance), distance, name, axis) for distance, name, axis in places
                if distance is not None]  # fmt: skip
        if not near:
            return None
        _, distance, name, axis = min(near, key=lambda place: place[0])
        gathered = self.node("Gather", [self.node("Shape", [name]), self.ints([axis])], axis=0)
        return self.node("Add", [gathered, self.ints([distance])]) if distance else gathered

    def finish(self, results: Sequence[str]) -> tuple[list[NodeProto], dict[str, Array]]:
        """The nodes and constants that results need, which get the names ``y<k>``."""
        renamed: dict[str, str] = {}
        extra = []
        outputs = {output for node in self.nodes.values() for output in node.outputs}
        for k, name in enumerate(results):
            if name in outputs and name not in renamed:
                renamed[name] = f"y{k}"
            else:
                extra.append(NodeProto("Identity", (name,), f"y{k}"))
        needed = set(results)
        kept = []
        for node in reversed(self.nodes.values()):
            if not needed.isdisjoint(node.outputs):
                needed.update(node.inputs)
                kept.append(node)

        def new(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(renamed.get(n, n) for n in names)

        nodes = [replace(n, inputs=new(n.inputs), output=new([n.output])[0], more=new(n.more))
                 for n in [*reversed(kept), *extra]]  # fmt: skip
        return nodes, {n: a for n, a in self.arrays.items() if n in needed}


def operands_of(extent: Any) -> tuple[Any, ...]:
    """The extents that an extent is computed from; none if it is not known arithmetic."""
    kind = type(extent).__name__
    if kind == "Cast":
        return (extent.value,)
    return (extent.a, extent.b) if kind in (*_ARITHMETIC, "FloorDiv") else ()
