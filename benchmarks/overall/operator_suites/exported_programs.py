"""Samples as exported programs: their inputs, symbolic sizes, and results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Program:
    """A function of tensors.

    Attributes:
        function: Takes the tensors.
        inputs: The tensors.
    """

    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]

    def results(self, inputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """Return what torch computes, as tensors; numbers are left out."""
        values = [x.clone() for x in (self.inputs if inputs is None else inputs)]
        torch.manual_seed(1)
        with torch.no_grad():
            out = self.function(*values)
        return [x for x in pytree.tree_leaves(out) if isinstance(x, torch.Tensor)]

    def exported(self, symbolic: bool = False) -> Any:
        """Return the program of `torch.export`, with symbols for sizes of at least 2 if asked."""
        shapes = None
        if symbolic:
            auto = torch.export.Dim.AUTO
            shapes = (
                tuple({k: auto for k, n in enumerate(x.shape) if n > 1} for x in self.inputs),
            )
        with torch.no_grad():
            return torch.export.export(
                _Module(self.function), self.inputs, dynamic_shapes=shapes, strict=False
            )


class _Module(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def of_sample(op: Callable[..., Any], sample: Any) -> Program:
    """Return a sample as a program whose inputs are the tensors of the sample."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    leaves = [x.detach() if isinstance(x, torch.Tensor) else x for x in leaves]

    def function(*tensors: torch.Tensor) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        first, args, kwargs = pytree.tree_unflatten(values, spec)
        return op(first, *args, **kwargs)

    return Program(function, tuple(leaves[place] for place in places))


def joined(programs: Sequence[Program]) -> Program:
    """Return a program that computes the results of several."""

    def function(*tensors: torch.Tensor) -> Any:
        left = iter(tensors)
        return [p.function(*itertools.islice(left, len(p.inputs))) for p in programs]

    return Program(function, tuple(x for p in programs for x in p.inputs))


def part(program: Program, place: int) -> Program:
    """Return a program that computes one of the results of another, counted from 0."""

    def function(*tensors: torch.Tensor) -> Any:
        out = pytree.tree_leaves(program.function(*tensors))
        return [x for x in out if isinstance(x, torch.Tensor)][place]

    return Program(function, program.inputs)


def grown(exported: Any, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...] | None:
    """Return inputs with each symbol 2 larger, whose elements repeat; None without symbols."""
    nodes = [n for n in exported.graph.nodes if n.op == "placeholder"]
    shapes = [n.meta["val"].shape for n in nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    shapes = shapes[len(shapes) - len(inputs) :]
    symbols = {s for shape in shapes for d in shape if not isinstance(d, int)
               for s in d.node.expr.free_symbols}  # fmt: skip
    if not symbols:
        return None
    hints = {s: value for shape, x in zip(shapes, inputs, strict=True)
             for d, value in zip(shape, x.shape, strict=True)
             if not isinstance(d, int) and (s := d.node.expr).is_Symbol}  # fmt: skip
    if symbols - hints.keys():
        return None
    larger = {s: value + 2 for s, value in hints.items()}
    sizes = [[d if isinstance(d, int) else int(d.node.expr.subs(larger)) for d in shape]
             for shape in shapes]  # fmt: skip
    return tuple(_repeated(x, size) for x, size in zip(inputs, sizes, strict=True))


def _repeated(x: torch.Tensor, size: Sequence[int]) -> torch.Tensor:
    """Return a larger tensor of the same elements; sorted rows, such as offsets, stay sorted."""
    count = int(torch.Size(size).numel())
    out = x.reshape(-1)[torch.arange(count) % max(x.numel(), 1)].reshape(size)
    is_sorted = x.ndim > 0 and not x.is_complex() and bool((x[..., 1:] >= x[..., :-1]).all())
    return out.sort(-1)[0] if is_sorted else out
