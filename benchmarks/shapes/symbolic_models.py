"""The models of the stream: torch modules with seeded weights, exported with a symbolic dimension.

`mlp`: (n, 256) through 512, 512, 64. `conv`: (n, 3, 32, 32) through three residual blocks.
`transformer`: (1, n, 256) through two blocks of attention, n 1 for a step of decoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
NAMES = ("mlp", "conv", "transformer")


def torch_model(name: str) -> Any:
    """Return the torch module in evaluation mode."""
    import torch

    torch.manual_seed(0)
    return {"mlp": _mlp, "conv": _conv, "transformer": _transformer}[name](torch.nn).eval()


def input_of(name: str, n: int, seed: int = 0) -> Array:
    """Return the input of a request of size ``n``."""
    rng = np.random.default_rng(seed + n)
    shape = {"mlp": (n, 256), "conv": (n, 3, 32, 32), "transformer": (1, n, 256)}[name]
    return rng.standard_normal(shape).astype(np.float32)


def module(name: str) -> Any:
    """Return the Relax module with constant weights and one symbolic dimension."""
    import torch

    from opinfo.frontend.formats.from_torch import from_program

    sample = torch.from_numpy(input_of(name, 8))
    axis = 1 if name == "transformer" else 0
    dims = ({axis: torch.export.Dim("n", min=1, max=4096)},)
    program = torch.export.export(torch_model(name), (sample,), dynamic_shapes=dims)
    return from_program(program)


def sizes(name: str, count: int = 50, seed: int = 0) -> list[int]:
    """Return the sizes of a stream: a few are frequent, most are rare."""
    rng = np.random.default_rng(seed)
    if name == "transformer":  # a prompt, then steps of decoding
        out: list[int] = []
        while len(out) < count:
            out += [int(rng.choice([7, 12, 33, 64, 100, 128])), 1, 1, 1, 1]
        return out[:count]
    usual = {"mlp": [1, 2, 5, 8, 16, 33, 64, 100, 128], "conv": [1, 2, 3, 4, 6, 8]}[name]
    return [int(v) for v in rng.choice(usual, count)]


def _mlp(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 64))  # fmt: skip


def _conv(nn: Any) -> Any:
    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1)
            self.skip = nn.Conv2d(inputs, outputs, 1, stride)

        def forward(self, x: Any) -> Any:
            return (self.second(self.first(x).relu()) + self.skip(x)).relu()

    return nn.Sequential(Block(3, 32, 1), Block(32, 64, 2), Block(64, 64, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))  # fmt: skip


def _transformer(nn: Any, width: int = 256, heads: int = 4) -> Any:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.normed, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            hidden = self.normed(x)
            q, k, v = (self.split(f(hidden)) for f in (self.q, self.k, self.v))
            scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(width // heads))
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, -1, width)
            x = x + self.out(mixed)
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

        def split(self, x: Any) -> Any:
            return x.reshape(1, -1, heads, width // heads).transpose(1, 2)

    return nn.Sequential(Attention(), Attention(), nn.LayerNorm(width))


Caller = Callable[[Array], Any]
