"""A graph that grows by nodes that ONNX Runtime executes.

Each value has its arrays, one for each binding of the symbolic dimensions, so a node is only added
if it is legal for all bindings, and if what it computes is defined: see `defined.py`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import runtime
from .defined import undefined
from .runtime import Array
from .values import drawn

#: Limits on the elements and the rank of a value.
ELEMENTS, RANK = 4096, 6
#: The largest float that models without edge values may hold, by dtype.
LARGEST = {"float16": 500.0, "float32": 1e5, "float64": 1e5}


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph: its arrays by binding, and whether it is an input or a constant."""

    name: str
    arrays: tuple[Array, ...]
    origin: str = "node"

    @property
    def dtype(self) -> str:
        return str(self.arrays[0].dtype)

    @property
    def kind(self) -> str:
        return str(self.arrays[0].dtype.kind)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape by the first binding."""
        return tuple(self.arrays[0].shape)

    @property
    def rank(self) -> int:
        return self.arrays[0].ndim


class Graph:
    """The nodes, inputs and constants so far.

    Args:
        rng: What all choices are drawn from.
        opset: The version of the operator set.
        sizes: The sizes of the symbolic dimension, one for each binding.
        edges: Whether values may be infinite, NaN or extreme.
    """

    def __init__(self, rng: random.Random, opset: int, sizes: Sequence[int], edges: bool) -> None:
        self.rng, self.opset, self.sizes, self.edges = rng, opset, tuple(sizes), edges
        self.nodes: list[Any] = []
        self.values: list[Value] = []
        self._count = 0
        self._focus: Value | None = None

    @contextmanager
    def focused(self, value: Value) -> Iterator[None]:
        """Let `pick` return this value alone."""
        self._focus = value
        try:
            yield
        finally:
            self._focus = None

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def input(self, shapes: Sequence[Sequence[int]], dtype: str) -> Value:
        """Add an input with a shape for each binding."""
        arrays = tuple(drawn(self.rng, shape, dtype, self.edges) for shape in shapes)
        value = Value(self.fresh("x"), arrays, "input")
        self.values.append(value)
        return value

    def constant(self, array: Any, dtype: str = "") -> Value:
        """Return a constant, which is kept if a node that uses it is added."""
        own = np.asarray(array, dtype) if dtype else np.asarray(array)
        return Value(self.fresh("c"), (own,) * len(self.sizes), "constant")

    def random_constant(self, shape: Sequence[int], dtype: str) -> Value:
        return self.constant(drawn(self.rng, shape, dtype, self.edges))

    def pick(self, kinds: str = "f", ranks: Sequence[int] = (), dtypes: Sequence[str] = ()) -> Any:
        """Return a value of these kinds, ranks and dtypes, mostly a late one; None without one."""
        if self._focus is not None:
            return self._focus
        fits = [v for v in self.values if v.kind in kinds and (not ranks or v.rank in ranks)
                and (not dtypes or v.dtype in dtypes)]  # fmt: skip
        if not fits:
            return None
        late = fits[-6:] if self.rng.random() < 0.7 else fits
        return self.rng.choice(late)

    def partner(self, value: Value, dtype: str = "") -> Value:
        """Return an operand that broadcasts with a value: another one, or a constant."""
        dtype = dtype or value.dtype
        fits = [v for v in self.values if v.dtype == dtype and _broadcasts(v, value)]
        if fits and self.rng.random() < 0.65:
            return self.rng.choice(fits)
        shape = [1 if self.rng.random() < 0.3 or not _static(value, k) else d
                 for k, d in enumerate(value.shape)]  # fmt: skip
        shape = shape[self.rng.choice((0, 0, 0, len(shape) // 2, len(shape))) :]
        return self.random_constant(shape, dtype)

    def add(
        self, op: str, inputs: Sequence[Value | None], outputs: int = 1, /, **attrs: Any
    ) -> Any:
        """Add a node; return its result, or a list of several; None if it is not legal."""
        from onnx import helper

        names = [v.name if v is not None else "" for v in inputs]
        while names and not names[-1]:
            names.pop()
        results = [self.fresh("v") for _ in range(outputs)]
        try:
            node = helper.make_node(op, names, results, **attrs)
        except (ValueError, TypeError):
            return None
        return self.added(node, [v for v in inputs if v is not None])

    def added(self, node: Any, operands: Sequence[Value]) -> Any:
        """Add a node that reads these operands, also in its branches."""
        if not runtime.is_node(node, self.opset):
            return None
        computed = []
        for binding in range(len(self.sizes)):
            feeds = {v.name: v.arrays[binding] for v in operands}
            if undefined(node, feeds, self.opset):
                return None
            try:
                out = runtime.run(runtime.wrapped([node], feeds, self.opset), feeds)
            except Exception:  # ONNX Runtime refuses it
                return None
            if not all(self._fits(out[name]) for name in node.output if name):
                return None
            computed.append(out)
        if any(len({out[name].ndim for out in computed}) > 1 for name in node.output if name):
            return None  # as of a Squeeze without axes, whose rank depends on a size
        known = {v.name for v in self.values}
        self.values += {v.name: v for v in operands if v.name not in known}.values()
        self.nodes.append(node)
        results = [Value(name, tuple(out[name] for out in computed)) for name in node.output]
        self.values += results
        return results[0] if len(results) == 1 else results

    def _fits(self, array: Any) -> bool:
        if not isinstance(array, np.ndarray) or array.size > ELEMENTS or array.ndim > RANK:
            return False
        if array.dtype.kind != "f" or self.edges:
            return array.dtype.kind in "fiub"
        largest = LARGEST[str(array.dtype)]
        return bool(np.isfinite(array).all() and np.abs(array).max(initial=0) <= largest)


def _static(value: Value, axis: int) -> bool:
    return len({a.shape[axis] for a in value.arrays}) == 1


def _broadcasts(a: Value, b: Value) -> bool:
    try:
        for x, y in zip(a.arrays, b.arrays, strict=True):
            np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True
