"""Models that exercise layouts, built operator by operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class _Net:
    """Emits operators with seeded weights."""

    def __init__(self, builder: Any) -> None:
        self.builder, self.rng = builder, np.random.default_rng(0)

    def weight(self, *shape: int) -> Any:
        scale = np.prod(shape[1:]) ** -0.5
        return relax.const((self.rng.standard_normal(shape) * scale).astype("float32"))

    def __call__(self, call: Any) -> Any:
        return self.builder.emit(call)

    def turn(self, x: Any, order: tuple[int, ...]) -> Any:
        return self(relax.op.permute_dims(x, order))

    def conv(
        self,
        x: Any,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        stride: int = 1,
        nhwc: bool = False,
    ) -> Any:
        weight = (
            self.weight(outputs, kernel, kernel, inputs)
            if nhwc
            else self.weight(outputs, inputs, kernel, kernel)
        )
        layouts = ("NHWC", "OHWI") if nhwc else ("NCHW", "OIHW")
        return self(relax.op.nn.conv2d(
            x, weight, strides=stride, padding=kernel // 2,
            data_layout=layouts[0], kernel_layout=layouts[1]))  # fmt: skip

    def imported(self, x: Any, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> Any:
        """Emit an NHWC convolution between transposes, as NCHW exchange formats store it."""
        y = self.turn(self.conv(self.turn(x, NCHW), inputs, outputs, kernel, stride), NHWC)
        return self(relax.op.nn.relu(self(relax.op.add(y, self.weight(outputs)))))


def _module(shape: tuple[int, ...], body: Callable[[_Net, Any], Any]) -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(body(_Net(builder), x))
        builder.emit_func_output(out)
    return builder.get()


def nhwc_import() -> Any:
    """Return four convolutions of an NHWC graph, each between two transposes; NHWC input."""

    def body(net: _Net, x: Any) -> Any:
        y = net.imported(x, 3, 16, stride=2)
        y = net.imported(y, 16, 32)
        z = net.imported(y, 32, 32)
        y = net(relax.op.add(y, net.imported(z, 32, 32)))
        y = net(relax.op.mean(y, axis=[1, 2]))
        return net(relax.op.matmul(y, net.weight(32, 10)))

    return _module((1, 64, 64, 3), body)


def mixed() -> Any:
    """Return parts in NCHW and in NHWC with nine transposes between them; NCHW input."""

    def block(net: _Net, x: Any, width: int) -> Any:
        """NHWC: convolution, normalisation over the channels, residual."""
        y = net.turn(x, NHWC)
        y = net.conv(y, width, width, nhwc=True)
        ones = relax.const(np.ones(width, "float32"))
        y = net(relax.op.nn.layer_norm(y, ones, net.weight(width), axes=[-1]))
        return net(relax.op.add(x, net.turn(net(relax.op.nn.relu(y)), NCHW)))

    def body(net: _Net, x: Any) -> Any:
        y = net(relax.op.nn.relu(net.conv(x, 3, 16, stride=2)))
        y = block(net, block(net, y, 16), 16)
        pooled = net(relax.op.nn.max_pool2d(y, pool_size=(2, 2), strides=(2, 2)))
        nhwc = net.conv(net.turn(pooled, NHWC), 16, 16, nhwc=True)
        nchw = net.turn(net.conv(pooled, 16, 16), NHWC)
        z = net.turn(net(relax.op.concat([nhwc, nchw], -1)), NCHW)
        y = block(net, net(relax.op.nn.relu(z)), 32)
        return net.conv(y, 32, 8, 1)

    return _module((1, 3, 32, 32), body)
