"""Small lowered modules to plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax


def const(rng: np.random.Generator, *shape: int) -> Any:
    return relax.const(rng.standard_normal(shape).astype("float32") / 4)


def net(
    build: Callable[..., Any],
    *shapes: tuple[Any, ...],
    legal: bool = True,
    seed: int = 0,
    dtype: str = "float32",
) -> Any:
    """The module of ``build(emit, rng, *inputs)``; ``legal``: after LegalizeOps."""
    rng = np.random.default_rng(seed)
    xs = [relax.Var(f"x{k}", relax.TensorType(s, dtype)) for k, s in enumerate(shapes)]
    bb = relax.BlockBuilder()
    with bb.function("main", xs):
        with bb.dataflow():
            out = bb.emit_output(build(bb.emit, rng, *xs))
        bb.emit_func_output(out)
    mod = bb.get()
    return relax.transform.LegalizeOps()(mod) if legal else mod


def residual(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """conv → batch_norm → relu → pool, a residual sum, a classifier."""
    nn = relax.op.nn
    y = emit(nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))
    y = emit(relax.op.add(y, const(rng, 1, 8, 1, 1)))
    y = emit(nn.relu(y))
    y = emit(nn.max_pool2d(y, (2, 2), (2, 2)))
    z = emit(nn.conv2d(y, const(rng, 8, 8, 3, 3), padding=1))
    y = emit(relax.op.add(y, z))
    y = emit(relax.op.mean(y, [2, 3]))
    return emit(relax.op.matmul(y, const(rng, 8, 5)))


def excited(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Squeeze and excitation: convolutions and biases of images of one pixel."""
    nn = relax.op.nn
    y = emit(nn.relu(emit(nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))))
    s = emit(relax.op.mean(y, [2, 3], keepdims=True))
    s = emit(relax.op.add(emit(nn.conv2d(s, const(rng, 16, 8, 1, 1))), const(rng, 1, 16, 1, 1)))
    s = emit(nn.conv2d(emit(nn.relu(s)), const(rng, 8, 16, 1, 1)))
    s = emit(relax.op.sigmoid(emit(relax.op.add(s, const(rng, 1, 8, 1, 1)))))
    return emit(relax.op.mean(emit(relax.op.multiply(y, s)), [2, 3]))


def convolved(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """One convolution."""
    return emit(relax.op.nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))


def flat(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """A classifier that flattens: channels, then pixels."""
    y = emit(relax.op.nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))
    y = emit(relax.op.reshape(y, (1, 8 * 8 * 8)))
    return emit(relax.op.matmul(y, const(rng, 512, 4)))


def shuffle(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """A channel shuffle between convolutions."""
    y = emit(relax.op.nn.conv2d(x, const(rng, 8, 3, 1, 1)))
    y = emit(relax.op.reshape(y, (1, 2, 4, 8, 8)))
    y = emit(relax.op.permute_dims(y, [0, 2, 1, 3, 4]))
    y = emit(relax.op.reshape(y, (1, 8, 8, 8)))
    return emit(relax.op.mean(emit(relax.op.nn.conv2d(y, const(rng, 4, 8, 3, 3))), [2, 3]))


def attention(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Two heads of self-attention over (batch, sequence, features)."""

    def heads(axes: list[int]) -> Any:
        y = emit(relax.op.matmul(x, const(rng, 8, 8)))
        return emit(relax.op.permute_dims(emit(relax.op.reshape(y, (2, 5, 2, 4))), axes))

    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = emit(relax.op.nn.softmax(emit(relax.op.matmul(q, k)), axis=-1))
    y = emit(relax.op.permute_dims(emit(relax.op.matmul(scores, v)), [0, 2, 1, 3]))
    return emit(relax.op.reshape(y, (2, 5, 8)))


def scaled(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """A block of ConvNeXt: channels last in the middle, a scale for each channel, a residual."""
    nn = relax.op.nn
    x = emit(nn.conv2d(x, const(rng, 8, 3, 2, 2), strides=2))
    y = emit(nn.conv2d(x, const(rng, 8, 1, 3, 3), padding=1, groups=8))
    y = emit(relax.op.permute_dims(y, [0, 2, 3, 1]))
    y = emit(relax.op.matmul(emit(relax.op.reshape(y, (16, 8))), const(rng, 8, 8)))
    y = emit(relax.op.permute_dims(emit(relax.op.reshape(y, (1, 4, 4, 8))), [0, 3, 1, 2]))
    y = emit(relax.op.multiply(const(rng, 8, 1, 1), y))
    y = emit(relax.op.mean(emit(relax.op.add(x, y)), [2, 3]))
    return emit(relax.op.matmul(y, const(rng, 8, 5)))


def parts(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """split and concat along channels, one part convolved; two results."""
    y = emit(relax.op.nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))
    halves = emit(relax.op.split(y, 2, axis=1))
    one, two = emit(halves[0]), emit(halves[1])
    two = emit(relax.op.nn.conv2d(two, const(rng, 4, 4, 3, 3), padding=1))
    y = emit(relax.op.concat([one, two], axis=1))
    return emit(relax.Tuple([y, emit(relax.op.nn.softmax(one, axis=1))]))


def paired(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """A tuple of which one part is used, as of a pool with indices; another that is returned."""
    y = emit(relax.op.nn.conv2d(x, const(rng, 8, 3, 3, 3), padding=1))
    pair = emit(relax.Tuple([y, emit(relax.op.zeros_like(y))]))
    y = emit(relax.op.nn.conv2d(emit(pair[0]), const(rng, 8, 8, 3, 3), padding=1))
    means = emit(relax.op.mean(y, axis=[2, 3]))
    both = emit(relax.Tuple([means, emit(relax.op.exp(means))]))
    return emit(relax.Tuple([emit(both[0]), emit(both[1])]))
