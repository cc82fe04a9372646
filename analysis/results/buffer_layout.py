"""The layout of a physical buffer over a logical one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tvm import s_tir, tirx

from ..index_map.maps.from_terms import to_tvm
from ..proposal.answer_values import Structural, literals, over, text
from ..terms.integer import floordiv
from ..terms.quotient import is_div
from ..terms.term import ONE, ZERO, CallTerm, Int, Var, as_int, integer, mul, polynomial
from ..terms.traversal import free

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


#: Axes of which a part may be named ahead of its letter: others are never packed by convention.
CHANNELS = ("C", "O", "I")


@dataclass(frozen=True, eq=False)
class BufferLayout(Structural):
    """Where elements are: ``physical[index_map(l)] = logical[l]`` for ``l`` inside ``shape``.

    Attributes:
        shape: The logical shape; symbolic extents are expressions over the PrimFunc's variables.
        index_map: TVM's index map from logical to physical coordinates.
        padded: Whether the physical buffer has elements beyond the logical ones.
        place: The indices as terms, if they depend on symbolic sizes.
    """

    shape: tuple[Any, ...]
    index_map: Any
    padded: bool = False
    place: PhysicalIndices | None = field(default=None, compare=False, repr=False)

    @property
    def symbolic(self) -> bool:
        """Whether the shape or the map still has terms over sizes."""
        return self.place is not None

    def over(self, leaves: Mapping[Var, Any]) -> BufferLayout:
        """Return the layout over the variables of a PrimFunc."""
        if self.place is None:
            return self
        return BufferLayout(over(self.shape, leaves), self.place.index_map(leaves), self.padded)

    @property
    def identity(self) -> bool:
        """Whether the physical buffer is the logical one."""
        axes, places = self.index_map.initial_indices, self.index_map.final_indices
        same = len(axes) == len(places) and all(map(_same, axes, places))
        return same and not self.padded

    @property
    def text(self) -> str:
        """The physical indices: ``[i0, i1, i2 * 8 + i3]``."""
        return ", ".join(map(text, self.index_map.final_indices)).join("[]")

    def __repr__(self) -> str:
        return f"[{', '.join(map(text, self.shape))}] at {self.index_map}"


def _same(a: Any, b: Any) -> bool:
    return bool(a.same_as(b))


@dataclass(frozen=True)
class PhysicalIndices:
    """The physical indices of a buffer over variables of its logical coordinates."""

    axes: tuple[Var, ...]
    indices: tuple[Int, ...]

    def layout(self, physical: Sequence[Int]) -> BufferLayout:
        shape = tuple(a.extent for a in self.axes if a.extent is not None)
        sizes = {v for p in (*self.indices, *shape) for v in free(p)} - set(self.axes)
        leaves = {v: tirx.Var(v.name, "int64") for v in sorted(sizes, key=lambda var: var.uid)}
        padded = _smaller(shape, physical)
        index_map = self.index_map(leaves)
        return BufferLayout(tuple(map(literals, shape)), index_map, padded, self if sizes else None)

    def index_map(self, leaves: Mapping[Var, Any]) -> Any:
        """Return the map from logical to physical coordinates, with an expression for each size."""
        names = [tirx.Var(f"i{k}", "int64") for k in range(len(self.axes))]
        expressions = {**leaves, **dict(zip(self.axes, names, strict=True))}
        return tirx.IndexMap(names, [to_tvm(p, expressions) for p in self.indices], None)

    def name(self, logical: str) -> str:
        """Return the layout string, ``NCHW4c`` over ``NCHW``; empty if TVM cannot express it."""
        slots = [None if p is ZERO else _digit(p, self.axes) for p in self.indices]
        digits = [d for d in slots if d is not None]
        if len(digits) < sum(p is not ZERO for p in self.indices) or not _unambiguous(digits):
            return ""
        names = ["" if d is None else _named(d, logical) for d in slots]
        axes = iter([c for k, c in enumerate(logical) if k not in {k for k, _, _ in digits}])
        for k in [k for k, d in enumerate(slots) if d is None]:  # of extent 1
            names[k] = next(axes, "") or self._outer(k, names, logical)
        text = "".join(names)
        return text if all(names) and parses(text) else ""

    def _outer(self, place: int, names: list[str], logical: str) -> str:
        """The letter of an outer axis of extent 1, where one block has all channels: OIHW1i4o."""
        if logical.startswith(LETTERS[: len(logical)]):
            return ""
        last = max((k for k, text in enumerate(names) if text.isupper()), default=0)
        if last > place and (letter := names[last]) in CHANNELS:
            extent = self.axes[logical.index(letter)].extent
            if extent is not None and extent.const is not None:
                names[last] = f"{extent.const}{letter.lower()}"
                return letter
        units = (c for c, a in zip(logical, self.axes, strict=True) if a.extent is ONE)
        free = (f"1{c.lower()}" for c in units if c in CHANNELS and c in names)
        return next((text for text in free if text not in names), "")


@cache
def parses(text: str) -> bool:
    """Whether TVM accepts a layout string, with as many dimensions as it has letters."""
    try:
        return len(s_tir.slayout(text)) == sum(c.isalpha() for c in text) > 0
    except (TypeError, ValueError, RuntimeError):
        return False


def _named(digit: Digit, logical: str) -> str:
    k, _, mod = digit
    return logical[k] if mod is None else f"{mod}{logical[k].lower()}"


def _smaller(shape: Sequence[Int], physical: Sequence[Int]) -> bool:
    logical_size = physical_size = ONE
    for poly in shape:
        logical_size = mul(logical_size, poly)
    for poly in physical:
        physical_size = mul(physical_size, poly)
    return logical_size is not physical_size


Digit = tuple[int, int, int | None]
"""``(axis // div) % mod``: the axis, the divisor, the modulus or None."""


def _digit(index: Int, axes: Sequence[Var]) -> Digit | None:
    used = [k for k, v in enumerate(axes) if v in free(index)]
    if len(used) != 1:
        return None
    (k,), axis = used, as_int(axes[used[0]])
    low, mod = index, None
    negative = [(m, c) for m, c in index.terms if c < 0]
    if len(negative) == 1:
        ((mono, coef),) = negative
        low, mod = index - polynomial({mono: coef}), -coef
    div = 1 if low is axis else _divisor(low, axis)
    if div is None or low is not floordiv(axis, integer(div)):
        return None
    if mod is not None and index is not low - mul(floordiv(axis, integer(div * mod)), integer(mod)):
        return None
    return k, div, mod


def _divisor(index: Int, axis: Int) -> int | None:
    atom = index.atom
    if isinstance(atom, CallTerm) and is_div(atom) and atom.args[0] is axis:
        return as_int(atom.args[1]).const
    return None


def _unambiguous(digits: Sequence[Digit]) -> bool:
    """Whether each axis has one outer digit, and inner digits from the highest to the lowest."""
    for k in {d[0] for d in digits}:
        parts = [d for d in digits if d[0] == k]
        inner = [(div, mod) for _, div, mod in parts if mod is not None]
        heads = [div for _, div, mod in parts if mod is None]
        step = 1
        for div, mod in reversed(inner):
            if div != step:
                return False
            step *= mod
        if heads != [step]:
            return False
    return True
