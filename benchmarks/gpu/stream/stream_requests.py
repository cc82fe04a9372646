"""Streams of requests of many shapes: `STREAMS`."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..architectures import SETS

#: Requests of a stream, and their shapes.
REQUESTS, SHAPES = 200, 40


@dataclass(frozen=True)
class Stream:
    """A model and the shapes of its requests.

    Attributes:
        build: Returns a torch module in evaluation mode; seed torch before.
        inputs: Returns the input of a shape on the CPU.
        dims: Returns the dynamic dimensions of the inputs, for `torch.export`.
        shapes: Draws a shape.
        samples: Shapes that are compared with builds for them alone.
        warm: A shape with which all builds are called before.
    """

    build: Callable[[], Any]
    inputs: Callable[[Sequence[int]], Any]
    dims: Callable[[], Any]
    shapes: Callable[[random.Random], tuple[int, ...]]
    samples: tuple[tuple[int, ...], ...]
    warm: tuple[tuple[int, ...], ...]


def requests(stream: Stream, seed: int = 0) -> list[tuple[int, ...]]:
    """The shapes of all requests: each at least once, the k-th most frequent 1 / k as often."""
    rng = random.Random(seed)
    shapes: dict[tuple[int, ...], None] = dict.fromkeys(stream.samples)
    while len(shapes) < SHAPES:
        shapes[stream.shapes(rng)] = None
    ranked = list(shapes)
    rng.shuffle(ranked)
    weights = [1 / (k + 1) for k in range(SHAPES)]
    order = [*ranked, *rng.choices(ranked, weights, k=REQUESTS - SHAPES)]
    rng.shuffle(order)
    return order


def _tokens(shape: Sequence[int]) -> Any:
    import torch

    return torch.randint(0, 1000, tuple(shape))


def _token_dims() -> Any:
    from torch.export import Dim

    return ({0: Dim("batch", min=1, max=32), 1: Dim("tokens", min=16, max=512)},)


def _image(shape: Sequence[int]) -> Any:
    import torch

    batch, high, wide = shape
    return torch.randn(batch, 3, 16 * high, 16 * wide)


def _image_dims() -> Any:
    from torch.export import Dim

    high, wide = Dim("high", min=4, max=22), Dim("wide", min=4, max=22)
    return ({0: Dim("batch", min=1, max=32), 2: 16 * high, 3: 16 * wide},)


def _vit() -> Any:
    from ..torch_modules import AnyResolutionViT

    return AnyResolutionViT()


STREAMS: Mapping[str, Stream] = {
    "bert": Stream(
        SETS["first"]["bert_base"].build, _tokens, _token_dims,
        lambda rng: (rng.randint(1, 32), rng.randint(16, 512)),
        ((1, 128), (4, 77), (32, 128), (16, 384)), ((1, 31), (3, 63)),
    ),
    "vit": Stream(
        _vit, _image, _image_dims,
        lambda rng: (rng.randint(1, 32), rng.randint(4, 22), rng.randint(4, 22)),
        ((1, 14, 14), (4, 10, 17), (32, 14, 14), (8, 20, 22)), ((1, 5, 7), (3, 8, 6)),
    ),
}  # fmt: skip


def network(name: str) -> tuple[Stream, Any]:
    """Return a stream and its seeded module, in half precision."""
    import torch

    torch.manual_seed(zlib.crc32(name.encode()))
    return STREAMS[name], STREAMS[name].build().eval().half()


def halves(value: Any) -> Any:
    """An input in the dtype of the model."""
    return value.half() if value.is_floating_point() else value


def shaped(name: str, shape: Sequence[int]) -> str:
    """The stem of a shape's files."""
    return f"stream-{name}-{'x'.join(map(str, shape))}" if shape else f"stream-{name}"
