"""Graphs of any number of operators: residual, shuffled, of transformers, or a ladder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Net:
    """A Relax function that is built op by op; weights are parameters after the input."""

    def __init__(self, kind: str) -> None:
        from tvm import tirx

        self.distinct, self.blocks = kind == "distinct", 0
        self.batch: Any = tirx.Var("n", "int64") if kind == "symbolic" else 1
        self.params: list[Any] = []

    def param(self, *shape: int) -> Any:
        from tvm import relax

        self.params.append(relax.Var(f"p{len(self.params)}", relax.TensorType(shape, "float32")))
        return self.params[-1]

    def width(self, step: int) -> int:
        """Return the width of the next block."""
        self.blocks += 1
        return step * (2 + self.blocks) if self.distinct else step * 2


Emit = Callable[[Any], Any]


def residual(net: Net, emit: Emit, x: Any, before: int, width: int) -> Any:
    """Emit a convolution to another width, and one with a shortcut."""
    from tvm import relax

    op, nn = relax.op, relax.op.nn
    y = emit(nn.conv2d(x, net.param(width, before, 1, 1)))
    y = emit(nn.relu(emit(op.add(y, net.param(1, width, 1, 1)))))
    z = emit(nn.conv2d(y, net.param(width, width, 3, 3), padding=1))
    z = emit(op.add(z, net.param(1, width, 1, 1)))
    return emit(nn.relu(emit(op.add(y, z))))


def shuffle(net: Net, emit: Emit, x: Any, before: int, width: int) -> Any:
    """Emit convolutions around a channel shuffle."""
    from tvm import relax

    op, nn = relax.op, relax.op.nn
    y = emit(nn.relu(emit(nn.conv2d(x, net.param(width, before, 1, 1)))))
    y = emit(op.reshape(y, (net.batch, 2, width // 2, 8, 8)))
    y = emit(op.permute_dims(y, [0, 2, 1, 3, 4]))
    y = emit(op.reshape(y, (net.batch, width, 8, 8)))
    return emit(nn.conv2d(y, net.param(width, 1, 3, 3), padding=1, groups=width))


def transformer(net: Net, emit: Emit, x: Any, before: int, width: int) -> Any:
    """Emit attention of four heads over 16 tokens and a dense layer, both with a shortcut."""
    from tvm import relax

    op, nn = relax.op, relax.op.nn
    x = emit(op.matmul(x, net.param(before, width)))

    def heads(axes: list[int]) -> Any:
        y = emit(op.matmul(x, net.param(width, width)))
        return emit(op.permute_dims(emit(op.reshape(y, (net.batch, 16, 4, width // 4))), axes))

    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    y = emit(op.matmul(emit(nn.softmax(emit(op.matmul(q, k)), axis=-1)), v))
    y = emit(op.reshape(emit(op.permute_dims(y, [0, 2, 1, 3])), (net.batch, 16, width)))
    x = emit(op.add(x, emit(op.matmul(y, net.param(width, width)))))
    y = emit(nn.relu(emit(op.matmul(x, net.param(width, width)))))
    return emit(op.add(x, emit(op.matmul(y, net.param(width, width)))))


def ladder(net: Net, emit: Emit, x: Any, before: int, width: int) -> Any:
    """Emit a rung between two chains, one of them transposed, which costs a conversion."""
    from tvm import relax

    op = relax.op
    a, b = x if isinstance(x, tuple) else (x, emit(op.nn.relu(x)))
    a = emit(op.add(a, emit(op.permute_dims(b, [0, 2, 1]))))
    return a, emit(op.add(b, a))


NETS = {"residual": residual, "shuffle": shuffle, "transformer": transformer, "ladder": ladder}


KINDS = {name: ("equal", "distinct", "symbolic") for name in NETS} | {"ladder": ("equal",)}


def lowered(name: str, ops: int, kind: str) -> Any:
    """Return the legalised module of a net with about this many ops."""
    from tvm import relax

    net, bb = Net(kind), relax.BlockBuilder()
    step = {"residual": 1, "shuffle": 2, "transformer": 4, "ladder": 8}[name]
    width = net.width(step)
    shape = {"transformer": (16, width), "ladder": (width, width)}.get(name, (width, 8, 8))
    x = relax.Var("x", relax.TensorType((net.batch, *shape), "float32"))
    calls: list[Any] = []

    def emit(call: Any) -> Any:
        calls.append(relax.Var(f"v{len(calls)}", bb.normalize(call).ty))
        bindings.append(relax.VarBinding(calls[-1], bb.normalize(call)))
        return calls[-1]

    bindings: list[Any] = []
    y: Any = x
    while len(bindings) < ops:
        before, width = width, net.width(step)
        y = NETS[name](net, emit, y, before, width)
    y = y[-1] if isinstance(y, tuple) else y
    body = relax.SeqExpr([relax.BindingBlock(bindings)], y)
    func = relax.Function([x, *net.params], body, y.ty).with_attr("num_input", 1)
    func = func.with_attr("global_symbol", "main")
    import tvm

    mod = relax.transform.ConvertToDataflow(1)(tvm.IRModule({"main": func}))
    return relax.transform.LegalizeOps()(mod)
