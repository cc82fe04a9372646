"""Random chains of Relax operators over tensors with symbolic dimensions, legalised and fused.

A maker takes a builder and a value and gives an expression of it, or None if it has no use for it.
Symbolic extents may stand at any axis, also where an operator reduces, slides or flips.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tvm import relax, tirx

op, nn = relax.op, relax.op.nn
Maker = Callable[["Graph", Any], Any]
MAKERS: list[tuple[float, Maker]] = []


def maker(weight: float = 1.0) -> Callable[[Maker], Maker]:
    def add(f: Maker) -> Maker:
        MAKERS.append((weight, f))
        return f

    return add


class Graph:
    """One function in the making."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.dims = {"n": tirx.Var("n", "int64"), "m": tirx.Var("m", "int64")}
        self.inputs: list[Any] = []
        self.bb = relax.BlockBuilder()

    def input(self, shape: list[Any], dtype: str = "float32") -> Any:
        x = relax.Var(f"x{len(self.inputs)}", relax.TensorType(shape, dtype))
        self.inputs.append(x)
        return x

    def shape(self, rank: int) -> list[Any]:
        """Extents of which at least one is n."""
        n, m = self.dims["n"], self.dims["m"]
        out: list[Any] = [self.pick(2, 3, 4, m if self.rng.random() < 0.3 else 3)
                          for _ in range(rank)]  # fmt: skip
        out[self.rng.randrange(rank)] = n
        if rank > 1 and self.rng.random() < 0.15:
            out[self.rng.randrange(rank)] = n
        return out

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def axis(self, x: Any) -> int:
        return self.rng.randrange(rank(x))

    def some(self, x: Any) -> list[int]:
        return sorted(self.rng.sample(range(rank(x)), self.rng.randint(1, rank(x))))


def rank(x: Any) -> int:
    return len(x.ty.shape)


def extents(x: Any) -> list[Any]:
    return [int(e) if isinstance(e, tirx.IntImm) else e for e in x.ty.shape]


def floating(x: Any) -> bool:
    return str(x.ty.dtype) == "float32"


def module(rng: Random, steps: int) -> Any:
    """A Relax module whose ``main`` is a random chain of so many operators."""
    g = Graph(rng)
    with g.bb.function("main"):
        with g.bb.dataflow():
            x = g.input(g.shape(g.pick(1, 2, 2, 3, 3, 4)))
            done = 0
            for _ in range(60):
                x, more = _step(g, x)
                done += more
                if done >= steps:
                    break
            out = g.bb.emit_output(x)
        g.bb.emit_func_output(out, g.inputs)
    return g.bb.get()


def functions(rng: Random) -> list[tuple[str, Any]]:
    """The PrimFuncs of one random chain, with what they are called."""
    steps = rng.choice((1, 1, 2, 2, 3, 5))
    mod = relax.transform.AnnotateTIROpPattern()(relax.transform.LegalizeOps()(module(rng, steps)))
    if steps > 1 and rng.random() < 0.8:
        mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    return [(g.name_hint, f) for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)]


def _step(g: Graph, x: Any) -> tuple[Any, bool]:
    makers, weights = [f for _, f in MAKERS], [w for w, _ in MAKERS]
    known = len(g.inputs)
    try:
        made = g.rng.choices(makers, weights)[0](g, x)
        if made is None or rank_of(made) == 0:
            del g.inputs[known:]
            return x, False
        return g.bb.emit(made), True
    except Exception:
        del g.inputs[known:]
        return x, False


def rank_of(made: Any) -> int:
    """1 where it is not known yet."""
    return len(made.ty.shape) if hasattr(getattr(made, "ty", None), "shape") else 1


# ------------------------------------------------------------------------ element by element


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


# ------------------------------------------------------------------------ moves


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


# ------------------------------------------------------------------------ reductions


@maker(3)
def reduced(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    f = g.pick(op.sum, op.sum, op.max, op.min, op.mean, op.prod, op.variance, op.std)
    return f(x, g.some(x), keepdims=g.rng.random() < 0.6)


@maker(2)
def softmax(g: Graph, x: Any) -> Any:
    return g.pick(nn.softmax, nn.log_softmax)(x, g.axis(x)) if floating(x) else None


@maker(1)
def argmax(g: Graph, x: Any) -> Any:
    return g.pick(op.argmax, op.argmin)(x, g.axis(x), keepdims=True) if floating(x) else None


@maker(0.6)
def cumulative(g: Graph, x: Any) -> Any:
    return op.cumsum(x, g.axis(x)) if floating(x) else None


@maker(1.5)
def norm(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    e, which = extents(x), g.pick("layer", "rms", "batch", "group")
    if which == "layer":
        axes = list(range(g.rng.randint(0, rank(x) - 1), rank(x)))
        own = [e[a] for a in axes]
        return nn.layer_norm(x, g.input(own), g.input(own), axes)
    if which == "rms":
        return nn.rms_norm(x, g.input(e[-1:]), [-1])
    if rank(x) < 3:
        return None
    c = e[1]
    if which == "group":
        return nn.group_norm(x, g.input([c]), g.input([c]), 1, 1, list(range(2, rank(x))))
    weights = [g.input([c]) for _ in range(4)]
    return g.bb.emit(nn.batch_norm(x, *weights, axis=1, training=False))[0]


# ------------------------------------------------------------------------ contractions, windows


@maker(3)
def matmul(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    e = extents(x)
    if len(e) == 1:
        return op.matmul(x, g.input([e[0], g.pick(3, g.dims["n"])]))
    batch = e[:-2] if len(e) > 2 and g.rng.random() < 0.4 else []
    other = [*batch, e[-1], g.pick(2, 3, g.dims["n"])]
    return op.matmul(x, g.input(other))


@maker(1)
def gram(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) < 2:
        return None
    axes = [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]
    flipped = op.permute_dims(x, axes)
    return op.matmul(x, flipped) if g.rng.random() < 0.5 else op.matmul(flipped, x)


@maker(0.8)
def attention(g: Graph, x: Any) -> Any:
    """Of a head over n positions."""
    if not floating(x) or rank(x) != 3:
        return None
    e = extents(x)
    keys, values = (g.input(e) for _ in range(2))
    scores = nn.softmax(op.matmul(x, op.permute_dims(keys, [0, 2, 1])), 2)
    return op.matmul(scores, values)


@maker(2.5)
def conv(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) not in (3, 4):
        return None
    e = extents(x)
    c, k = e[1], g.pick(1, 2, 3)
    if not isinstance(c, int):
        return None
    space = rank(x) - 2
    f = nn.conv1d if space == 1 else nn.conv2d
    weight = g.input([g.pick(2, 3), c, *[k] * space])
    pad = g.pick(0, (k - 1) // 2, k // 2)
    return f(x, weight, [g.pick(1, 1, 2)] * space, [pad] * (2 * space), g.pick(1, 1, 2))


@maker(1.5)
def pool(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) != 4:
        return None
    if g.rng.random() < 0.2:
        return nn.adaptive_avg_pool2d(x, g.pick((1, 1), (2, 2)))
    f = g.pick(nn.max_pool2d, nn.avg_pool2d)
    k = g.pick(2, 3)
    return f(x, (k, k), (g.pick(1, 2),) * 2, (g.pick(0, 1),) * 4)


@maker(0.5)
def resized(g: Graph, x: Any) -> Any:
    if not floating(x) or rank(x) != 4:
        return None
    h, w = extents(x)[2:]
    return op.image.resize2d(x, (h * 2, w * 2), method=g.pick("nearest_neighbor", "linear"))


# ------------------------------------------------------------------------ by data


@maker(1.2)
def taken(g: Graph, x: Any) -> Any:
    index = g.input([g.pick(g.dims["n"], 3)], g.pick("int64", "int32"))
    return op.take(x, index, g.axis(x), mode=g.pick("fast", "clip", "wrap"))


@maker(0.6)
def gathered(g: Graph, x: Any) -> Any:
    return op.gather_elements(x, g.input(extents(x), "int64"), g.axis(x))


@maker(0.4)
def hot(g: Graph, x: Any) -> Any:
    index = g.input([g.dims["n"]], "int64")
    return op.one_hot(index, relax.prim_value(1), relax.prim_value(0), 3, -1)


@maker(0.4)
def scattered(g: Graph, x: Any) -> Any:
    if not floating(x):
        return None
    return op.scatter_elements(x, g.input(extents(x), "int64"), g.input(extents(x)), g.axis(x))
