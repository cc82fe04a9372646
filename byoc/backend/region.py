"""A matched subgraph as a converter sees it: operators with attributes, without Relax and TIR."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...analysis.proposal.proposal import Constant
from ...analysis.results.op_info import OpInfo
from ...layout.graph.relax_graph import Op, Value
from ..patterns.elementwise_groups import ElementwiseGroup, Infos, group
from ..patterns.op_names import arguments

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Tensor:
    """An operand or a result in a region.

    Attributes:
        source: ``input``, ``constant`` or ``call``.
        index: The position among the region's inputs, its constants or its calls.
        shape: Integers, and expressions where an extent is symbolic.
        dtype: TVM's name of the dtype.
        result: Which result of the call it is.
    """

    source: Literal["input", "constant", "call"]
    index: int
    shape: tuple[Any, ...]
    dtype: str
    result: int = 0

    @property
    def static(self) -> bool:
        return all(isinstance(e, int) for e in self.shape)


@dataclass(frozen=True)
class Call:
    """One operator of a region.

    Attributes:
        op: Its Relax name.
        attrs: All its attributes. A literal scalar operand is an attribute under its argument's
            name: ``attrs["x2"]`` is 2.0 for ``x + 2``.
        operands: Its tensors, in order.
        result: Its result; of several, the first one.
        more: Its other results.
    """

    op: str
    attrs: Mapping[str, Any]
    operands: tuple[Tensor | Constant, ...]
    result: Tensor
    more: tuple[Tensor, ...] = ()

    @property
    def results(self) -> tuple[Tensor, ...]:
        """All results."""
        return (self.result, *self.more)

    @property
    def arguments(self) -> tuple[Tensor | int | float | bool, ...]:
        """The arguments in order: tensors, and literals in their positions."""
        tensors = iter(self.operands)
        out: list[Tensor | int | float | bool] = []
        for name in arguments(self.op):
            if isinstance(value := _plain(self.attrs.get(name)), (int, float)):
                out.append(value)
            elif (tensor := next(tensors, None)) is not None:
                out.append(_plain(tensor))
        return (*out, *map(_plain, tensors))

    def literal(self, name: str) -> int | float | bool | None:
        """The literal for an argument; None if the argument is a tensor."""
        value = dict(zip(arguments(self.op), self.arguments, strict=False)).get(name)
        return None if isinstance(value, Tensor) else value


@dataclass(frozen=True, eq=False)
class Region:
    """The operators that a backend takes together.

    Attributes:
        symbol: The name of the function to export.
        calls: The operators, in order.
        inputs: The tensors passed at run time, in order.
        constants: Arrays that are known at compile time.
        results: The results that other operators use: the last one of a chain, one or more of a
            subgraph.
    """

    symbol: str
    calls: tuple[Call, ...]
    inputs: tuple[Tensor, ...]
    constants: tuple[Array, ...]
    results: tuple[Tensor, ...]

    @property
    def result(self) -> Tensor:
        """The last result."""
        return self.results[-1]

    def find(self, *names: str) -> Call | None:
        """The first call of one of these operators; None if the region has none."""
        return next((c for c in self.calls if c.op in names), None)


@dataclass(frozen=True)
class Placed:
    """A region in its graph: ``inputs`` and ``results`` are values in the order of the region's."""

    region: Region
    ops: tuple[Op, ...]
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]


def region(
    symbol: str, ops: Sequence[Op], infos: Infos, names: Collection[str] = (), elements: bool = True
) -> Placed:
    """The region of some ops, in their order.

    Args:
        symbol: The name of its function.
        ops: The ops, each after those whose results it reads.
        infos: What they compute.
        names: Operators that several ops may be merged to (`byoc.patterns.elementwise_groups`).
        elements: Copy the elements of constants; otherwise they are zeros, which take no memory.
    """
    builder = _RegionBuilder(elements)
    groups = _groups(ops, infos, names)
    inner = {op for g in groups.values() for op in g.ops[:-1]}
    for op in ops:
        if op in groups:
            builder.add(groups[op].op, groups[op].info)
        elif op not in inner:
            info = infos[op].info
            assert isinstance(info, OpInfo)
            builder.add(op, info)
    results = results_of(ops)
    built = Region(symbol, tuple(builder.calls), tuple(builder.inputs), tuple(builder.constants),
                   tuple(builder.tensors[v] for v in results))  # fmt: skip
    return Placed(built, tuple(ops), tuple(builder.values), results)


def _groups(ops: Sequence[Op], infos: Infos, names: Collection[str]) -> dict[Op, ElementwiseGroup]:
    """Groups with these names among some ops, by their last op; groups do not overlap."""
    members = set(ops)
    out: dict[Op, ElementwiseGroup] = {}
    inside: set[Op] = set()
    for op in ops if names else ():
        if op in inside:
            continue
        merged = group(op.outputs[0], infos) if len(op.outputs) == 1 else None
        if merged is not None and merged.info.name in names and members.issuperset(merged.ops):
            out[merged.ops[-1]] = merged
            inside.update(merged.ops[:-1])
    return out


def results_of(ops: Sequence[Op]) -> tuple[Value, ...]:
    """The values that other ops use; if there are none, the results of the last op."""
    inside = {op.origin or op for op in ops}
    used = [v for op in ops for v in op.outputs if not v.only_in(inside)]
    return tuple(used) or ops[-1].outputs


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Constant) else value


class _RegionBuilder:
    """Collects the calls, inputs and constants of a region."""

    def __init__(self, elements: bool) -> None:
        self.elements = elements
        self.calls: list[Call] = []
        self.inputs: list[Tensor] = []
        self.constants: list[Array] = []
        self.values: list[Value] = []
        self.tensors: dict[Value, Tensor] = {}

    def add(self, op: Op, info: OpInfo) -> None:
        operands = tuple(
            operand if isinstance(operand, Constant) else self.operand(op.values[operand])
            for operand in info.operands
        )
        first, *more = (Tensor("call", len(self.calls), out.shape, out.dtype, k)
                        for k, out in enumerate(op.outputs))  # fmt: skip
        self.calls.append(Call(info.name, info.attrs, operands, first, tuple(more)))
        self.tensors.update(zip(op.outputs, (first, *more), strict=True))

    def operand(self, value: Value | None) -> Tensor:
        assert value is not None
        if value not in self.tensors:
            if value.constant:
                place = Tensor("constant", len(self.constants), value.shape, value.dtype)
                self.constants.append(
                    as_array(value.expr.value) if self.elements else _zeros(value)
                )
            else:
                place = Tensor("input", len(self.inputs), value.shape, value.dtype)
                self.inputs.append(place)
                self.values.append(value)
            self.tensors[value] = place
        return self.tensors[value]


def _zeros(value: Value) -> Array:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, value.dtype, value.dtype))
    # In a tenth of the time of `np.broadcast_to`, for thousands of candidates of a model.
    shape = tuple(value.shape)
    return np.ndarray(shape, dtype, bytes(dtype.itemsize), strides=(0,) * len(shape))


def as_array(tensor: Any) -> Array:
    """The tensor of a CPU as an array, which shares its memory if numpy knows the dtype."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError):  # such as bfloat16
        return np.asarray(tensor.numpy())
