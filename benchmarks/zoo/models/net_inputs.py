"""Inputs of nets: token ids, sequences of any length, graphs and tables.

Each is, or returns, a function that takes torch and returns sample inputs by name, and their
dynamic dimensions by name and axis, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def text(vocabulary: int, length: int = 64, longest: int = 256) -> Callable[[Any], Any]:
    """Token ids, of any number of tokens."""

    def inputs(torch: Any) -> Any:
        count = torch.export.Dim("tokens", min=2, max=longest)
        ids = torch.randint(0, vocabulary, (1, length))
        return {"input_ids": ids}, {"input_ids": {1: count}}

    return inputs


def tokens(vocabulary: int, length: int) -> Callable[[Any], Any]:
    """Token ids, of a fixed number of tokens."""
    return lambda torch: ({"input_ids": torch.randint(3, vocabulary, (1, length))}, None)


def pair(vocabulary: int, source: int = 64, target: int = 16) -> Callable[[Any], Any]:
    """Token ids of a source and of a target, of any lengths."""

    def inputs(torch: Any) -> Any:
        lengths = {"input_ids": source, "decoder_input_ids": target}
        sample = {key: torch.randint(3, vocabulary, (1, count)) for key, count in lengths.items()}
        names = {"input_ids": "source", "decoder_input_ids": "target"}
        dims = {key: {1: torch.export.Dim(name, min=2, max=256)} for key, name in names.items()}
        return sample, dims

    return inputs


def fixed(**shapes: tuple[int, ...]) -> Callable[[Any], Any]:
    """Tensors of fixed shapes, by name."""
    return lambda torch: ({key: torch.randn(shape) for key, shape in shapes.items()}, None)


def along(
    key: str, shape: tuple[int, ...], *axes: int, step: int = 1, least: int = 2, most: int = 65536
) -> Callable[[Any], Any]:
    """One input with dynamic axes, multiples of ``step``, at least ``least`` of them.

    TVM allocates for the largest extent, ``most``.
    """

    def inputs(torch: Any) -> Any:
        counts = {axis: torch.export.Dim(f"n{axis}", min=least, max=most // step) for axis in axes}
        dims = counts if step == 1 else {axis: step * dim for axis, dim in counts.items()}
        return {key: torch.randn(shape)}, {key: dims}

    return inputs


def edges(torch: Any) -> Any:
    """A graph as pairs of its nodes, of any size."""
    dim = torch.export.Dim
    count = dim("edges", min=2, max=4096)
    sample = {"nodes": torch.randn(30, 9), "source": torch.randint(0, 30, (64,)),
              "target": torch.randint(0, 30, (64,))}  # fmt: skip
    return sample, {"nodes": {0: dim("atoms", min=2, max=1024)}, "source": {0: count},
                    "target": {0: count}}  # fmt: skip


def dense_graph(torch: Any) -> Any:
    """A graph as a matrix between its nodes, of any size."""
    count = torch.export.Dim("count", min=2, max=4096)
    sample = {"nodes": torch.randn(256, 1433), "adjacency": (torch.rand(256, 256) < 0.02).float()}
    return sample, {"nodes": {0: count}, "adjacency": {0: count, 1: count}}


def clicks(torch: Any) -> Any:
    """Rows of a table: numbers and categories, any number of rows."""
    batch = torch.export.Dim("batch", min=2, max=4096)
    sample = {"dense": torch.randn(8, 13), "sparse": torch.randint(0, 1000, (8, 26))}
    return sample, {"dense": {0: batch}, "sparse": {0: batch}}


def latents(torch: Any) -> Any:
    """The inputs of one step of a diffusion model."""
    shapes = {"latent": (1, 320, 32, 32), "time": (1, 1280), "context": (1, 77, 768)}
    return {key: torch.randn(shape) for key, shape in shapes.items()}, None


def words(torch: Any) -> Any:
    """The numbers of 24 words."""
    return {"words": torch.randint(0, 8000, (1, 24))}, None
