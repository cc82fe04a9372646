"""Makers of operators element by element, and of moves."""

from __future__ import annotations

from typing import Any

from tvm import relax

from .graph_builder import Graph, Makers, extents, floating, maker_of, nn, op, rank

MAKERS: Makers = []
maker = maker_of(MAKERS)


@maker(4)
def unary(g: Graph, x: Any) -> Any:
    if not floating(x):
        return op.astype(x, "float32")
    f = g.pick(nn.relu, op.exp, op.tanh, op.sigmoid, nn.silu, nn.gelu, op.abs, op.square,
               op.negative, op.floor, op.round, nn.softplus, op.erf, op.sqrt)  # fmt: skip
    return f(op.clip(x, -4.0, 4.0)) if f is op.exp else f(x)


@maker()
def clip(g: Graph, x: Any) -> Any:
    return op.clip(x, -0.5, g.pick(0.5, 2.0)) if floating(x) else None


@maker(3)
def binary(g: Graph, x: Any) -> Any:
    """With itself, a literal, or a tensor that is broadcast."""
    if not floating(x):
        return None
    f = g.pick(op.add, op.subtract, op.multiply, op.maximum, op.minimum)
    which = g.pick("self", "const", "like", "row", "some")
    if which == "self":
        return f(x, x)
    if which == "const":
        return f(x, relax.const(g.pick(0.0, 1.0, 0.5, -2.0), "float32"))
    e = extents(x)
    if which == "row":
        return f(x, g.input(e[-g.rng.randint(1, len(e)) :]))
    return f(x, g.input(e if which == "like" else [g.pick(1, d) for d in e]))


@maker(0.7)
def compared(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    f = g.pick(op.less, op.greater, op.equal, op.greater_equal)
    return op.where(f(x, relax.const(0.3, "float32")), x, op.negative(x))


@maker(0.7)
def cast(g: Graph, x: Any) -> Any:
    return (
        op.astype(op.astype(x, g.pick("float16", "float64", "int32")), "float32")
        if floating(x)
        else None
    )


@maker(1.5)
def transposed(g: Graph, x: Any) -> Any:
    axes = list(range(rank(x)))
    g.rng.shuffle(axes)
    return op.permute_dims(x, axes)


@maker(1.5)
def reshaped(g: Graph, x: Any) -> Any:
    e = extents(x)
    which = g.pick("flat", "merge", "split")
    if which == "flat":
        return op.flatten(x)
    if which == "merge" and len(e) > 1:
        k = g.rng.randrange(len(e) - 1)
        return op.reshape(x, [*e[:k], e[k] * e[k + 1], *e[k + 2 :]])
    four = next((k for k, d in enumerate(e) if d == 4), None)
    return None if four is None else op.reshape(x, [*e[:four], 2, 2, *e[four + 1 :]])


@maker(0.7)
def expanded(g: Graph, x: Any) -> Any:
    return op.expand_dims(x, g.rng.randint(0, rank(x))) if rank(x) < 4 else None


@maker(0.7)
def broadcast(g: Graph, x: Any) -> Any:
    return op.broadcast_to(x, [g.pick(2, g.dims["n"]), *extents(x)]) if rank(x) < 4 else None


@maker(1)
def joined(g: Graph, x: Any) -> Any:
    axis, e = g.axis(x), extents(x)
    if not floating(x):
        return None
    other = [d if k != axis else g.pick(2, d) for k, d in enumerate(e)]
    pair = [x, g.input(other)]
    g.rng.shuffle(pair)
    return op.concat(pair, axis)


@maker(0.7)
def stacked(g: Graph, x: Any) -> Any:
    return op.stack([x, x], g.rng.randint(0, rank(x))) if rank(x) < 4 else None


@maker(0.7)
def flipped(g: Graph, x: Any) -> Any:
    return op.flip(x, g.axis(x))


@maker(0.7)
def repeated(g: Graph, x: Any) -> Any:
    if g.rng.random() < 0.5:
        return op.repeat(x, 2, g.axis(x))
    return op.tile(x, [g.pick(1, 2) for _ in range(rank(x))])


@maker(0.8)
def padded(g: Graph, x: Any) -> Any:
    return nn.pad(x, [g.pick(0, 0, 1, 2) for _ in range(2 * rank(x))], pad_value=g.pick(0.0, 1.0))


@maker(0.8)
def sliced(g: Graph, x: Any) -> Any:
    axis = g.axis(x)
    e = extents(x)[axis]
    if isinstance(e, int):
        return op.strided_slice(x, [axis], [g.pick(0, 1)], [e], [g.pick(1, 2)], assume_inbound=True)
    return op.strided_slice(x, [axis], [0], [e], [g.pick(1, 2, -1)], assume_inbound=True)


@maker(0.6)
def halves(g: Graph, x: Any) -> Any:
    axes = [k for k, d in enumerate(extents(x)) if isinstance(d, int) and d in (2, 4)]
    if not axes or not floating(x):
        return None
    both = g.bb.emit(op.split(x, 2, axes[0]))
    return op.multiply(both[0], op.sigmoid(both[1]))


@maker(0.6)
def triangle(g: Graph, x: Any) -> Any:
    return g.pick(op.tril, op.triu)(x, g.pick(-1, 0, 1)) if rank(x) > 1 else None
