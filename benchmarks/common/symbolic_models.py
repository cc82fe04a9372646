"""The models of the stream: torch modules with seeded weights, exported with symbolic dimensions.

| model | input | network |
|---|---|---|
| `mlp` | (n, 256) | through 512, 512, 64 |
| `conv` | (n, 3, 32, 32) | three residual blocks |
| `transformer` | (1, n, 256) | two blocks of attention, n 1 for a step of decoding |
| `encoder` | (b, n, 256) | the same with a symbolic batch |
| `conv1d` | (1, 64, n) | dilated convolutions over time, with residuals |
| `gated` | (1, n, 128) | gated linear units and a gated convolution over time |
| `recurrent` | (n, 8, 64) | a GRU over eight steps |
| `image` | (1, 3, h, w) | depthwise and pointwise convolutions over an image of any size |
| `recogniser` | (1, 1, 32, n) | convolutions over a line of text, attention, 96 classes |
| `decoder` | (1, 1, 256), (1, 4, n, 64) twice | a step of decoding over n past tokens |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: Names of the models, by the number of their symbolic dimensions.
NAMES = ("mlp", "conv", "transformer", "encoder", "conv1d", "gated", "recurrent", "image",
         "recogniser", "decoder")  # fmt: skip
Size = tuple[int, ...]
WIDTH, HEADS = 256, 4
#: The shapes of the inputs; a letter is a symbolic dimension.
SHAPES: dict[str, tuple[tuple[int | str, ...], ...]] = {
    "mlp": (("n", 256),),
    "conv": (("n", 3, 32, 32),),
    "transformer": ((1, "n", WIDTH),),
    "encoder": (("b", "n", WIDTH),),
    "conv1d": ((1, 64, "n"),),
    "gated": ((1, "n", 128),),
    "recurrent": (("n", 8, 64),),
    "image": ((1, 3, "h", "w"),),
    "recogniser": ((1, 1, 32, "n"),),
    "decoder": ((1, 1, WIDTH), (1, HEADS, "n", 64), (1, HEADS, "n", 64)),
}
#: The sizes of a stream, the frequent ones repeated.
USUAL: dict[str, tuple[Size, ...]] = {
    "mlp": ((1,), (2,), (5,), (8,), (16,), (33,), (64,), (100,), (128,)),
    "conv": ((1,), (2,), (3,), (4,), (6,), (8,)),
    "encoder": ((1, 7), (1, 12), (2, 12), (4, 33), (1, 64), (8, 20), (2, 100), (3, 17)),
    "conv1d": ((50,), (80,), (100,), (160,), (256,), (400,)),
    "gated": ((1,), (7,), (20,), (33,), (64,), (100,), (200,)),
    "recurrent": ((1,), (2,), (3,), (5,), (8,), (16,), (32,)),
    "image": ((32, 32), (48, 64), (64, 64), (56, 100), (80, 60), (97, 33)),
    "recogniser": ((16,), (25,), (32,), (40,), (64,), (80,)),
    "decoder": ((3,), (8,), (17,), (33,), (64,), (65,), (66,), (100,), (128,)),
}


def dimensions(name: str) -> tuple[str, ...]:
    """Return the letters of the symbolic dimensions, in order."""
    letters = [d for shape in SHAPES[name] for d in shape if isinstance(d, str)]
    return tuple(dict.fromkeys(letters))


def torch_model(name: str) -> Any:
    """Return the torch module in evaluation mode."""
    import torch

    torch.manual_seed(0)
    return MODELS[name](torch.nn).eval()


def inputs_of(name: str, size: Size, seed: int = 0) -> list[Array]:
    """Return the inputs of a request with these symbolic extents."""
    rng = np.random.default_rng(seed + sum(size))
    extents = dict(zip(dimensions(name), size, strict=True))
    shapes = [[extents[d] if isinstance(d, str) else d for d in s] for s in SHAPES[name]]
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def input_of(name: str, n: int, seed: int = 0) -> Array:
    """Return the only input of a request with one symbolic dimension."""
    (array,) = inputs_of(name, (n,), seed)
    return array


def module(name: str) -> Any:
    """Return the Relax module with constant weights and symbolic dimensions."""
    import torch

    from opinfo.frontend.formats.from_torch import from_program

    least = {"image": 8, "recogniser": 8}.get(name, 1)
    sample = [torch.from_numpy(a) for a in inputs_of(name, (24, 40)[: len(dimensions(name))])]
    dims = {d: torch.export.Dim(d, min=least, max=4096) for d in dimensions(name)}
    dynamic = tuple({k: dims[d] for k, d in enumerate(s) if isinstance(d, str)}
                    for s in SHAPES[name])  # fmt: skip
    program = torch.export.export(torch_model(name), tuple(sample), dynamic_shapes=dynamic)
    return from_program(program)


def stream(name: str, count: int = 50, seed: int = 0) -> list[Size]:
    """Return the symbolic extents of a stream of requests: a few are frequent, most are rare."""
    rng = np.random.default_rng(seed)
    if name == "transformer":  # a prompt, then steps of decoding
        out: list[Size] = []
        while len(out) < count:
            out += [(int(rng.choice([7, 12, 33, 64, 100, 128])),), (1,), (1,), (1,), (1,)]
        return out[:count]
    return [USUAL[name][k] for k in rng.integers(0, len(USUAL[name]), count)]


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


def _block(nn: Any) -> Any:
    """Return the class of a transformer block, without the heads of its attention."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.normed, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def output(self, x: Any, q: Any, k: Any, v: Any, rows: Any, length: int) -> Any:
            """Attend to ``v``, and apply the layers behind the attention."""
            scores = (q @ k.transpose(-1, -2)) * (1 / math.sqrt(WIDTH // HEADS))
            x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(rows, length, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.after(x))))

    return Block


def _attention(nn: Any, batch: int) -> Any:
    """Return a block of attention over inputs of a batch, or of any (-1)."""

    class Attention(_block(nn)):
        def forward(self, x: Any) -> Any:
            rows = x.shape[0] if batch < 0 else batch
            hidden = self.normed(x)
            q, k, v = (self.split(f(hidden), rows) for f in (self.q, self.k, self.v))
            return self.output(x, q, k, v, rows, -1)

        def split(self, x: Any, rows: Any) -> Any:
            return x.reshape(rows, -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    return Attention()


def _transformer(nn: Any) -> Any:
    return nn.Sequential(_attention(nn, 1), _attention(nn, 1), nn.LayerNorm(WIDTH))


def _encoder(nn: Any) -> Any:
    return nn.Sequential(_attention(nn, -1), _attention(nn, -1), nn.LayerNorm(WIDTH))


def _conv1d(nn: Any) -> Any:
    class Block(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.wide = nn.Conv1d(64, 64, 3, padding=dilation, dilation=dilation)
            self.mix = nn.Conv1d(64, 64, 1)

        def forward(self, x: Any) -> Any:
            return x + self.mix(self.wide(x).relu())

    return nn.Sequential(*(Block(2**k) for k in range(4)), nn.Conv1d(64, 16, 1))


def _gated(nn: Any) -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.normed, self.up = nn.LayerNorm(128), nn.Linear(128, 512)
            self.conv = nn.Conv1d(256, 256, 3, padding=1, groups=256)
            self.down = nn.Linear(256, 128)

        def forward(self, x: Any) -> Any:
            value, gate = self.up(self.normed(x)).chunk(2, -1)
            gate = self.conv(gate.transpose(1, 2)).transpose(1, 2)
            return x + self.down(value * nn.functional.silu(gate))

    return nn.Sequential(Block(), Block(), Block())


def _recurrent(nn: Any) -> Any:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = nn.GRUCell(64, 128), nn.Linear(128, 16)

        def forward(self, x: Any) -> Any:
            state = x.new_zeros((x.shape[0], 128))
            for k in range(8):
                state = self.cell(x[:, k], state)
            return self.out(state)

    return Recurrent()


def _image(nn: Any) -> Any:
    def separable(inputs: int, outputs: int, stride: int) -> list[Any]:
        return [nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs), nn.ReLU(),
                nn.Conv2d(inputs, outputs, 1), nn.ReLU()]  # fmt: skip

    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), *separable(16, 32, 1),
                         *separable(32, 64, 2), *separable(64, 64, 1), nn.Conv2d(64, 8, 1),
                         nn.Sigmoid())  # fmt: skip


def _recogniser(nn: Any) -> Any:
    class Recogniser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Sequential(
                nn.Conv2d(1, 32, 3, (2, 1), 1), nn.ReLU(), nn.MaxPool2d((2, 1)),
                nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.MaxPool2d((2, 1)),
                nn.Conv2d(64, WIDTH, 3, (2, 1), 1), nn.ReLU(), nn.MaxPool2d((2, 1)))  # fmt: skip
            self.mix, self.classes = _attention(nn, 1), nn.Linear(WIDTH, 96)

        def forward(self, x: Any) -> Any:
            columns = self.features(x).squeeze(2).transpose(1, 2)
            return self.classes(self.mix(columns)).softmax(-1)

    return Recogniser()


def _decoder(nn: Any) -> Any:
    class DecoderStep(_block(nn)):
        def forward(self, x: Any, keys: Any, values: Any) -> Any:
            import torch

            hidden = self.normed(x)
            q, k, v = (f(hidden).reshape(1, 1, HEADS, -1).transpose(1, 2)
                       for f in (self.q, self.k, self.v))  # fmt: skip
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            return self.output(x, q, k, v, 1, 1)

    return DecoderStep()


MODELS: dict[str, Callable[[Any], Any]] = {
    "mlp": _mlp, "conv": _conv, "transformer": _transformer, "encoder": _encoder,
    "conv1d": _conv1d, "gated": _gated, "recurrent": _recurrent, "image": _image,
    "recogniser": _recogniser, "decoder": _decoder,
}  # fmt: skip
