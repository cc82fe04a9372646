"""Eleven graphs of an anchor and what usually follows it, each for a backend to take whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm import relax

from ...layout import nets

nn, op = relax.op.nn, relax.op
IMAGE, RESULT = (1, 16, 8, 8), (1, 8, 8, 8)
ROWS, WIDTH = (16, 24), 32
Build = Callable[..., Any]


@dataclass(frozen=True)
class Chain:
    """``build(emit, rng, *inputs)``; ``backend`` is one that is to take all of it."""

    build: Build
    shapes: tuple[tuple[int, ...], ...]
    backend: str = "onednn"
    dtype: str = "float32"

    def module(self) -> Any:
        return nets.net(self.build, *self.shapes, legal=False, dtype=self.dtype)


def _conv(*after: Callable[..., Any], more: int = 0) -> Chain:
    """A convolution, then functions of its result, a generator and further inputs."""

    def build(emit: Any, rng: Any, x: Any, *others: Any) -> Any:
        y = emit(nn.conv2d(x, nets.const(rng, 8, 16, 3, 3), padding=1))
        for f in after:
            y = emit(f(y, rng, *others))
        return y

    return Chain(build, (IMAGE, *[RESULT] * more))


def _dense(*after: Callable[..., Any], backend: str = "onednn", more: int = 0) -> Chain:
    def build(emit: Any, rng: Any, x: Any, *others: Any) -> Any:
        y = emit(op.matmul(x, nets.const(rng, ROWS[1], WIDTH)))
        for f in after:
            y = emit(f(y, rng, *others))
        return y

    return Chain(build, (ROWS, *[(ROWS[0], WIDTH)] * more), backend)


def _cast(emit: Any, rng: Any, x: Any, w: Any) -> Any:
    """Half-precision operands, what follows in single precision."""
    y = emit(op.astype(emit(op.matmul(x, w)), "float32"))
    return emit(nn.relu(emit(op.add(y, nets.const(rng, WIDTH)))))


def _by_channel(y: Any, rng: Any, *_: Any) -> Any:
    return op.add(y, nets.const(rng, 1, 8, 1, 1))


def _reshaped(y: Any, rng: Any, *_: Any) -> Any:
    """One value a channel, brought into shape."""
    return op.add(y, op.reshape(nets.const(rng, 8), (1, 8, 1, 1)))


def _by_column(y: Any, rng: Any, *_: Any) -> Any:
    return op.add(y, nets.const(rng, WIDTH))


def _relu(y: Any, rng: Any, *_: Any) -> Any:
    return nn.relu(y)


CHAINS: Mapping[str, Chain] = {
    "conv2d, bias, relu": _conv(_by_channel, _relu),
    "conv2d, bias by reshape, silu": _conv(_reshaped, lambda y, r: nn.silu(y)),
    "conv2d, scale by channel, bias, clip": _conv(
        lambda y, r: op.multiply(y, nets.const(r, 1, 8, 1, 1)), _by_channel,
        lambda y, r: op.clip(y, 0.0, 6.0)),
    "conv2d, bias, residual, relu": _conv(_by_channel, lambda y, r, z: op.add(y, z), _relu, more=1),
    "conv2d, clip": _conv(lambda y, r: op.clip(y, -0.5, 0.5)),
    "matmul, bias, gelu_tanh": _dense(_by_column, lambda y, r: nn.gelu_tanh(y)),
    "matmul, scale, bias of two axes": _dense(
        lambda y, r: op.multiply(y, relax.const(0.125)),
        lambda y, r: op.add(y, nets.const(r, 1, WIDTH))),
    "matmul, bias first, silu": _dense(
        lambda y, r: op.add(nets.const(r, WIDTH), y), lambda y, r: nn.silu(y)),
    "matmul, bias, residual": _dense(_by_column, lambda y, r, z: op.add(z, y), more=1),
    "matmul, reshape, bias, relu": _dense(
        lambda y, r: op.reshape(y, (2, 8, WIDTH)), _by_column, _relu, backend="onnxruntime"),
    "matmul of halves, cast, bias, relu": Chain(
        _cast, (ROWS, (ROWS[1], WIDTH)), "cublaslt", "float16"),
}  # fmt: skip
