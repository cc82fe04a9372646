"""A Relax function as values and the PrimFunc calls between them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from ...analysis.lifting.tir.node import NodeDict, items
from ..model.buffer_bytes import size_of
from ..model.layout import Dim, Layout
from .side_effects import Effect


@dataclass(eq=False)
class Value:
    """A tensor of a Relax function: a parameter, a constant, or a result of a call.

    Attributes:
        name: The variable's name.
        shape: Integers, and expressions where an extent is symbolic.
        dtype: TVM's name of the dtype.
        expr: The Relax expression; None for one of several results of a call.
        constant: Whether it is a constant.
        fixed: Whether its own layout cannot change, such as a parameter's.
        weight: Whether it depends only on constants and on parameters after ``num_input``.
        parameter: Whether it is a parameter of the function.
        pinned: Why it must also exist in the program's layout; None if only calls use it.
        producer: The call that produces it.
        uses: The calls that read it.
        vdevice: The virtual device that it is on.
        of: The value of the program; this one is its variant in one layout.
        makers: The calls that produce that variant.
        orders: The memory order of each layout that was asked for.
        sizes: The bytes in each layout that was asked for.
        within: The least and the greatest element of a parameter that callers of the function
            check, or of a result that its code asserts; None if nothing checks it.
    """

    name: str
    shape: tuple[Any, ...]
    dtype: str
    expr: Any
    constant: bool = False
    fixed: bool = False
    weight: bool = False
    parameter: bool = False
    pinned: str | None = None
    producer: Op | None = None
    uses: list[Op] = field(default_factory=list)
    vdevice: Any = None
    of: Value | None = None
    makers: list[Op] = field(default_factory=list)
    orders: dict[Layout, Dim] = field(default_factory=dict, repr=False)
    sizes: dict[Layout, int] = field(default_factory=dict, repr=False)
    within: tuple[float, float] | None = None

    def order(self, layout: Layout) -> Dim:
        """The digits of a layout in memory order; equal orders mean equal memory."""
        if layout not in self.orders:
            self.orders[layout] = layout.order(self.shape)
        return self.orders[layout]

    def size(self, layout: Layout) -> int:
        """The bytes in a layout, padding included; a symbolic extent counts as 64."""
        if layout not in self.sizes:
            self.sizes[layout] = size_of(layout.physical(self.shape), self.dtype)
        return self.sizes[layout]

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def only_in(self, ops: Collection[Op]) -> bool:
        """Whether only these ops of the program, or variants of them, need it."""
        program = self.of or self
        return program.pinned is None and all((u.origin or u) in ops for u in program.uses)

    @property
    def free(self) -> bool:
        """Whether all its layouts cost nothing: a constant, or a weight that is bound later."""
        return self.constant or (self.weight and self.producer is None)


@dataclass(eq=False)
class Op:
    """A ``call_tir``.

    Attributes:
        name: The name of the PrimFunc.
        func: The PrimFunc.
        call: The call.
        inputs: The values that it reads; None for arguments that are not tensors.
        outputs: The values that it writes.
        origin: For a variant: the op of the program that this is an alternative of.
        node: The name of the model's node that it comes from; empty if unknown.
        era: How many calls before it may have written into a tensor; of a variant, that of its
            origin.
    """

    name: str
    func: Any
    call: Any
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value, ...]
    origin: Op | None = None
    node: str = ""
    era: int = 0

    @property
    def values(self) -> tuple[Value | None, ...]:
        """The value of each parameter of the PrimFunc."""
        return (*self.inputs, *self.outputs)


@dataclass(frozen=True)
class Graph:
    """One Relax function.

    Attributes:
        values: Its values.
        ops: Its calls of PrimFuncs, in order.
        by_var: The op that a variable is bound to.
        of: The value of a variable.
        tuples: The values of a variable that is a tuple.
        effect: What its calls may write into.
    """

    values: tuple[Value, ...]
    ops: tuple[Op, ...]
    by_var: NodeDict[Op]
    of: NodeDict[Value]
    tuples: NodeDict[tuple[Value, ...]]
    effect: Effect

    @property
    def mutates(self) -> bool:
        """Whether a call may write into its arguments; no value may then share memory."""
        return self.effect > Effect.NONE

    def may_change(self, value: Value) -> bool:
        """Whether something may write into a value after it is produced.

        A copy in another layout would then be out of date. An impure call may reach a value that is
        not made by a call of a PrimFunc, or that something else uses.
        """
        return self.effect == Effect.IMPURE and (value.fixed or value.pinned is not None)

    def shares(self, op: Op) -> bool:
        """Whether the only result may share its operand's memory."""
        (value,) = op.outputs if len(op.outputs) == 1 else (None,)
        return value is not None and value.pinned is None and not self.mutates


def extents(shape: Any) -> tuple[Any, ...] | None:
    """The extents of a shape as integers or expressions; None if it is unknown."""
    values = getattr(shape, "values", None)
    if values is None:
        return None
    return tuple(int(v) if isinstance(v, (int, tirx.IntImm)) else v for v in items(values))
