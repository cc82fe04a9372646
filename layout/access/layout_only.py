"""Buffers of a PrimFunc that only hold another buffer in another memory order.

    T_transpose[n, h, w, c] = x[n, c, h, w]                              moves
    T_reshape[n, c]         = x[n, c, 0, 0]                              is the same memory
    pad[n, c, h, w]         = x[n, c, h - 1, w - 1] if 1 <= h < 9 … else 0       keeps the order

A copy moves elements if its memory order differs from the source's. The map between flat positions
is evaluated, so neither names nor the form of expressions matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...analysis.chain.define import define
from ...analysis.chain.tensor_program import TensorDefinition, coordinates_of
from ...analysis.lifting.tir.unliftable import Unliftable
from ...analysis.terms.evaluate import Unevaluable, evaluate, numpy_dtype
from ...analysis.terms.term import CallTerm, Int, Load, TensorVar, Term, Var
from ...analysis.terms.term.literals import is_literal
from ...analysis.terms.traversal import free, tensors
from ..model.buffer_bytes import SYMBOLIC

Array = npt.NDArray[Any]
#: The value of a symbolic extent for evaluating positions.
TRIED = 4


@dataclass(frozen=True)
class LayoutOnlyBuffer:
    """A buffer that is a conversion, with its size and the parameters that it depends on."""

    bytes: int
    sources: frozenset[int]


def conversions_in(func: Any) -> tuple[LayoutOnlyBuffer, ...]:
    """The conversions inside a PrimFunc; none if it cannot be lifted."""
    try:
        program = define(func)
    except (Unliftable, RecursionError):
        return ()
    out, origin = [], {}
    for param in program.params:
        if isinstance(param, TensorVar):
            origin[param] = frozenset([param.position])
    for definition in program.definitions:
        read = tensors(definition.body) if definition.body is not None else definition.order
        origin[definition.tensor] = frozenset().union(*(origin.get(t, ()) for t in read))
        if is_conversion(definition):
            out.append(LayoutOnlyBuffer(_bytes(definition.tensor), origin[definition.tensor]))
    return tuple(out)


def is_conversion(definition: TensorDefinition) -> bool:
    """Whether a buffer is a copy of another in a different memory order."""
    if definition.body is None:
        return False
    copied = _only_load(definition.body)
    if copied is None or any(tensors(i) for i in copied.indices):
        return False
    sizes = {v: TRIED for e in (*definition.tensor.shape, *copied.tensor.shape) for v in free(e)}
    try:
        places = _SourcePositions(definition, copied, sizes)
    except Unevaluable:
        return False
    return places.reorder()


def _only_load(body: Term) -> Load | None:
    """The only load that a body can evaluate to, besides literals."""
    values = {leaf for leaf in _leaves(body) if not is_literal(leaf)}
    (only,) = values if len(values) == 1 else (None,)
    return only if isinstance(only, Load) else None


def _leaves(body: Term) -> Iterator[Term]:
    node: Any = (body.atom or body) if isinstance(body, Int) else body
    if isinstance(node, CallTerm) and node.op == "ite":
        yield from _leaves(node.args[1])
        yield from _leaves(node.args[2])
    else:
        yield node


class _SourcePositions:
    """The flat source position of each element of a copy; -1 for a literal."""

    def __init__(self, definition: TensorDefinition, copied: Load, sizes: dict[Any, int]) -> None:
        self.shape = [int(evaluate(e, sizes)) for e in definition.tensor.shape]
        self.source = [int(evaluate(e, sizes)) for e in copied.tensor.shape]
        env: dict[Var, Any] = dict(sizes)
        grid = np.indices(self.shape, sparse=True)
        for axis, points in zip(coordinates_of(definition.tensor), grid, strict=True):
            if isinstance(axis.atom, Var):
                env[axis.atom] = points
        flat: Any = np.int64(0)
        for index, extent in zip(copied.indices, self.source, strict=True):
            flat = flat * extent + evaluate(index, env)
        assert definition.body is not None
        chosen = _chosen(definition.body, copied, env)
        self.flat = np.broadcast_to(np.where(chosen, flat, -1), self.shape)

    def reorder(self) -> bool:
        """Whether the copy has another memory order than its source."""
        line = self.flat.reshape(-1)
        line = line[line >= 0]
        if (np.diff(line) > 0).all():
            return False
        read = np.zeros(math.prod(self.source), bool)
        read[line] = True
        if read.sum() != line.size:
            return False  # an element is read twice
        if line.size == self.flat.size == read.size:
            return mixed_radix(line)
        return all(_rises(self.flat, axis) for axis in range(self.flat.ndim))


def _chosen(body: Term, copied: Load, env: dict[Var, Any]) -> Any:
    """A mask of the elements at which the body is the load, not a literal."""
    node: Any = (body.atom or body) if isinstance(body, Int) else body
    if not (isinstance(node, CallTerm) and node.op == "ite"):
        return np.bool_(node is copied)
    yes, no = (_chosen(a, copied, env) for a in node.args[1:])
    return np.where(evaluate(node.args[0], env), yes, no)


def _rises(flat: Array, axis: int) -> bool:
    """Whether the source is never read backwards along an axis: a flip is not a layout."""
    low, high = (np.take(flat, range(*ends), axis) for ends in
                 ((0, flat.shape[axis] - 1), (1, flat.shape[axis])))  # fmt: skip
    return bool(((low < high) | (low < 0) | (high < 0)).all())


def mixed_radix(line: Array) -> bool:
    """Whether positions are sums over digits of the index: ``line[Σ dₖ rₖ] = Σ dₖ sₖ``, s ≥ 0.

    >>> mixed_radix(np.array([0, 3, 1, 4, 2, 5])), mixed_radix(np.array([3, 2, 1, 0]))
    (True, False)
    """
    remaining, expected = line, np.zeros(1, line.dtype)
    while remaining.size > 1:
        step = remaining[1]
        run = int(np.argmin(np.append(remaining == step * np.arange(remaining.size), False)))
        if step <= 0 or run < 2 or remaining.size % run:
            return False
        expected = (step * np.arange(run)[:, None] + expected).reshape(-1)
        remaining = remaining[::run]
    return bool((line == expected).all())


def _bytes(tensor: TensorVar) -> int:
    sizes = {v: SYMBOLIC for e in tensor.shape for v in free(e)}
    count = math.prod(int(evaluate(e, sizes)) for e in tensor.shape)
    return count * numpy_dtype(tensor.dtype).itemsize
