"""Regions as words that the runtime reads: a kind, its tensors, numbers and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class OperandView:
    """A tensor in the axes of a primitive: ``t0.p0312`` is tensor 0 of a call, permuted."""

    text: str

    def permuted(self, axes: Sequence[int]) -> OperandView:
        if list(axes) == sorted(axes):
            return self
        return OperandView(f"{self.text}.p{''.join(chr(ord('0') + a) for a in axes)}")

    def expanded(self, rank: int) -> OperandView:
        """With leading axes of one element."""
        return OperandView(f"{self.text}.e{rank}")

    def trailing(self, rank: int) -> OperandView:
        """With trailing axes of one element."""
        return OperandView(f"{self.text}.t{rank}")

    def grouped(self, groups: int) -> OperandView:
        """With the first axis split in groups, which come first."""
        return self if groups == 1 else OperandView(f"{self.text}.g{groups}")

    def merged(self) -> OperandView:
        """With the axes before the last one as one."""
        return OperandView(f"{self.text}.m")

    def flat(self) -> OperandView:
        return OperandView(f"{self.text}.f")


class NotInPlace(ValueError):
    """A region that matches a pattern reads a tensor in axes that it does not have in memory."""


@dataclass
class Recipe:
    """What a region does, for the runtime to read."""

    kind: str
    words: list[str] = field(default_factory=list)

    def view(self, name: str, view: OperandView) -> Recipe:
        return self._add(name, view.text)

    def views(self, **views: OperandView | None) -> Recipe:
        for name, view in views.items():
            if view is not None:
                self.view(name, view)
        return self

    def numbers(self, values: Iterable[Any]) -> Recipe:
        integers = [str(int(v)) for v in values]
        return self._add("numbers", str(len(integers)), *integers)

    def algorithm(self, name: str, alpha: float = 0.0, beta: float = 0.0) -> Recipe:
        """The algorithm of the main primitive, with its parameters."""
        return self._add("how", name).parameters(alpha, beta)

    def parameters(self, alpha: float, beta: float = 0.0) -> Recipe:
        return self._add("with", number(alpha), number(beta))

    def eltwise(self, how: str, alpha: float, beta: float) -> Recipe:
        """A function of each element that follows."""
        return self._add("eltwise", f"eltwise_{how}", number(alpha), number(beta))

    def binary(self, how: str, view: OperandView) -> Recipe:
        """A function of each element and one of another tensor that follows."""
        return self._add("binary", how, view.text)

    def scale(self, argument: str, mask: int, view: OperandView) -> Recipe:
        return self._add("scale", argument, str(mask), view.text)

    def zero(self, argument: str, view: OperandView) -> Recipe:
        return self._add("zero", argument, "0", view.text)

    @property
    def text(self) -> str:
        return " ".join([self.kind, *self.words])

    def _add(self, *words: str) -> Recipe:
        self.words += words
        return self


def number(value: float) -> str:
    """A float32 with all its bits, as C reads it."""
    return float(np.float32(value)).hex()
