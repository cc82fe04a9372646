"""Random Relax modules to plan, each from its seed, and random arguments for the planner."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.script import tirx as T

from .random_ops import MAKERS
from .random_ops.tensors import dtype, floating, literal, rank, shape, size

Array = np.ndarray[Any, Any]
SYMBOLIC = 2  # what a symbolic batch is run with
DESIRED: tuple[dict[str, list[str]], ...] = (
    {"conv2d": ["NHWC", "OHWI"]},
    {"conv2d": ["NHWC", "HWIO"]},
    {"conv2d": ["NCHW4c", "OIHW4i4o"]},
    {"conv2d": ["NCHW8c", "OIHW8i8o"]},
    {"conv2d": ["NCHW4c", "OIHW4o4i", "NCHW8c"]},
    {"conv2d": ["NHWC", "OHWI"], "max_pool2d": ["NHWC"], "avg_pool2d": ["NHWC"]},
    {"max_pool2d": ["NHWC"], "avg_pool2d": ["NCHW4c"], "adaptive_avg_pool2d": ["NHWC"]},
    {"conv2d": ["NHWC", "OHWI"], "conv2d_transpose": ["NHWC", "IOHW"]},
    {"conv2d": ["NCHW4c", "OIHW4i4o"], "max_pool2d": ["NHWC"]},
    {"conv1d": ["NWC", "OWI"], "conv2d": ["NHWC", "OHWI"]},
    {},
)


@dataclass(frozen=True)
class Case:
    """A lowered module with the arguments of its plan, and inputs for its ``main``."""

    seed: int
    module: Any
    desired: dict[str, list[str]]
    mode: Any
    objective: str
    pins: dict[str, str]
    inputs: tuple[Array, ...]


def case(seed: int, least: int = 5, most: int = 25, special: bool = True) -> Case:
    """The case of a seed; ``special``: with control flow, calls, impure and in-place ops."""
    rng = random.Random(seed)
    graph = _Graph(rng, special)
    module = graph.build(rng.randint(least, most))
    keep = rng.random() < 0.2
    skip = rng.sample(RAW, rng.randint(1, 4)) if keep else []
    module = relax.transform.LegalizeOps(skip_ops=[f"relax.{n}" for n in skip])(module)
    desired = {k: list(v) for k, v in rng.choice(DESIRED).items()}
    pins = {}
    if rng.random() < 0.2:
        pins = {"x0": rng.choice(["NHWC", "NCHW4c", "NCWH"])}
    mode = rng.choice(["tir", "tir", "graph"])
    objective = rng.choice(["bytes", "bytes", "count"])
    return Case(seed, module, desired, mode, objective, pins, tuple(graph.inputs))


RAW = (
    *("nn.relu", "nn.softmax", "nn.max_pool2d", "nn.batch_norm", "nn.conv2d", "mean", "add"),
    *("permute_dims", "reshape", "concat", "split", "layout_transform", "strided_slice"),
)


@T.prim_func(private=True, s_tir=True)
def _double(a: T.handle) -> None:
    T.func_attr({"tirx.noalias": True})
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    for i in range(n):
        with T.sblock("double"):
            v = T.axis.spatial(n, i)
            A[v] = A[v] * T.float32(2)


@tvm.register_global_func("opinfo.tests.halved", override=True)
def _halved(x: Any) -> Any:
    return tvm.runtime.tensor(x.numpy() / 2)


@tvm.register_global_func("opinfo.tests.look", override=True)
def _look(x: Any) -> Any:
    return tvm.runtime.tensor(x.numpy().copy())


class _Graph:
    """Builds a module; the builder that the makers see."""

    def __init__(self, rng: random.Random, special: bool) -> None:
        self.rng, self.special = rng, special
        self.numpy = np.random.default_rng(rng.randrange(2**32))
        self.bb = relax.BlockBuilder()
        self.params: list[Any] = []
        self.weights: list[Any] = []
        self.inputs: list[Array] = []
        self.weight_values: list[Array] = []
        self.values: list[Any] = []
        self.bound = rng.random() < 0.7  # weights are constants, else parameters
        self.impure = special and rng.random() < 0.15
        self.batch: Any = rng.choice([1, 1, 2, SYMBOLIC])

    # -------------------------------------------------------------------- for the makers

    def emit(self, expr: Any) -> Any:
        return self.bb.emit(expr)

    def weight(self, *shape: int, kind: str = "") -> Any:
        data = self.numpy.standard_normal(shape).astype("float32") * np.float32(0.4)
        if kind == "positive":
            data = np.abs(data) + np.float32(0.5)
        data = np.asarray(data, "float32")
        if self.bound or self.inner:
            return relax.const(data)
        var = relax.Var(f"w{len(self.weights)}", relax.TensorType(shape, "float32"))
        self.weights.append(var)
        self.weight_values.append(data)
        return var

    def alike(self, x: Any, axis: int | None = None) -> list[Any]:
        """Values of the same type, along one axis of any extent; there is always x itself."""

        def key(v: Any) -> Any:
            own = list(map(str, shape(v)))
            if axis is not None and len(own) > axis:
                own[axis] = "*" if isinstance(shape(v)[axis], int) else "n"
            return (own, dtype(v))

        return [v for v in (*self.values, x) if key(v) == key(x)]

    # -------------------------------------------------------------------- structure

    def build(self, count: int) -> Any:
        self.inner = False
        rng = self.rng
        symbolic = rng.random() < 0.12
        batch = tirx.Var("n", "int64") if symbolic else self.batch
        c, h = rng.choice([1, 3, 4, 5, 6, 8]), rng.choice([4, 5, 6, 7])
        self.parameter((batch, c, h, rng.choice([h, h, 5])))
        if rng.random() < 0.4:
            self.parameter((batch, *shape(self.values[0])[1:]))
        if rng.random() < 0.2 and not symbolic:
            self.parameter((batch, rng.choice([4, 6]), 8))
        if self.special and rng.random() < 0.25 and not symbolic:
            self.helper = self.subgraph()
        else:
            self.helper = None
        choice = self.flag() if self.special and rng.random() < 0.15 else None
        self.values = list(self.params[: len(self.params) - (choice is not None)])
        # Parameters of the helper were its own.
        with self.bb.function("main", pure=not self.impure):
            left = count
            while left > 0:
                part = left if rng.random() < 0.5 else rng.randint(1, left)
                left -= part
                self.block(part)
                if self.special:
                    self.between(choice)
            out = self.result()
            self.bb.emit_func_output(out, [*self.params, *self.weights])
        mod = self.bb.get()
        if self.weights and rng.random() < 0.8:
            mod = tvm.IRModule({
                g: f.with_attr("num_input", len(self.params)) if g.name_hint == "main" else f
                for g, f in mod.functions_items()
            })  # fmt: skip
        self.inputs += self.weight_values
        return mod

    def parameter(self, own: tuple[Any, ...]) -> None:
        var = relax.Var(f"x{len(self.params)}", relax.TensorType(own, "float32"))
        self.params.append(var)
        self.values.append(var)
        real = [e if isinstance(e, int) else SYMBOLIC for e in own]
        self.inputs.append(self.numpy.standard_normal(real).astype("float32"))

    def flag(self) -> Any:
        var = relax.Var("flag", relax.TensorType((), "bool"))
        self.params.append(var)
        self.inputs.append(np.asarray(self.rng.random() < 0.5))
        return var

    def subgraph(self) -> Any:
        """A function of one image that main may call."""
        own = shape(self.values[0])
        x = relax.Var("x", relax.TensorType(own, "float32"))
        outer, self.values, self.inner = self.values, [x], True
        with self.bb.function("helper", [x]):
            with self.bb.dataflow():
                for _ in range(self.rng.randint(1, 4)):
                    self.step()
                out = self.bb.emit_output(self.values[-1])
            gvar = self.bb.emit_func_output(out)
        self.values, self.inner = outer, False
        return gvar

    def block(self, count: int) -> None:
        """Bindings, in a dataflow block or not; some of its values go on."""
        if self.rng.random() < 0.25:
            for _ in range(count):
                self.step()
            return
        outside = list(self.values)
        with self.bb.dataflow():
            for _ in range(count):
                self.step()
            new = [v for v in self.values if not any(v.same_as(o) for o in outside)]
            kept = [*self.rng.sample(new[:-1], min(len(new) - 1, self.rng.randint(0, 2))), new[-1]]
            outs = [self.bb.emit_output(v) for v in kept]
        self.values = [*outside, *outs]

    def step(self) -> None:
        """One more value, of a random operator on a random value, mostly a late one."""
        while True:
            recent = self.values[-4:] if self.rng.random() < 0.8 else self.values
            x = self.rng.choice(recent)
            if self.helper_call(x):
                return
            (make,) = self.rng.choices([m for _, m in MAKERS], [w for w, _ in MAKERS])
            made = make(self, x)
            if (
                made is not None
                and made.ty.shape is not None
                and rank(made) <= 6
                and size(made) <= 12000
            ):
                self.values.append(made)
                return

    def helper_call(self, x: Any) -> bool:
        helper = None if self.inner else self.helper
        first = self.params[0]
        if helper is None or self.rng.random() > 0.1 or dtype(x) != "float32":
            return False
        if list(map(str, shape(x))) != list(map(str, shape(first))):
            return False
        self.values.append(self.emit(relax.Call(helper, [x])))
        return True

    def between(self, flag: Any) -> None:
        """What may not be in a dataflow block."""
        x = self.rng.choice(self.values)
        roll = self.rng.random()
        if flag is not None and floating(x) and roll < 0.6:
            joined = self.emit(self.branches(flag, x))
            if joined.ty.shape is not None:  # of branches over symbolic extents it is not known
                self.values.append(joined)
        elif self.impure and roll < 0.5 and dtype(x) == "float32":
            packed = relax.Call(relax.ExternFunc("opinfo.tests.look"), [x], ty_args=[x.ty])
            self.values.append(self.emit(packed))
        elif roll > 0.8 and dtype(x) == "float32":
            self.values.append(self.emit(
                relax.op.call_pure_packed("opinfo.tests.halved", x, ty_args=[x.ty])
            ))  # fmt: skip
        elif roll > 0.7:
            self.inplace(x)

    def branches(self, flag: Any, x: Any) -> Any:
        def branch(f: Callable[[Any], Any], name: str) -> Any:
            one = self.bb.normalize(f(x))
            var = relax.Var(name, one.ty)
            two = self.bb.normalize(relax.op.add(var, x))
            end = relax.Var(name + "_end", two.ty)
            bindings = [relax.VarBinding(var, one), relax.VarBinding(end, two)]
            return relax.SeqExpr([relax.BindingBlock(bindings)], end)

        return relax.If(flag, branch(relax.op.tanh, "yes"), branch(relax.op.nn.relu, "no"))

    def inplace(self, x: Any) -> None:
        """Doubles a flat copy where it is; nothing else sees the copy."""
        if dtype(x) != "float32" or len(literal(x)) != rank(x):
            return
        flat = self.emit(relax.op.add(relax.op.reshape(x, (size(x),)), relax.const(1.0)))
        gvar = self.bb.add_func(_double, "double")
        self.values.append(self.emit(
            relax.op.call_tir_inplace(gvar, [flat], [0], relax.TensorType((size(x),), "float32"))
        ))  # fmt: skip

    def result(self) -> Any:
        """One value, or a tuple; parameters and the same value twice may be in it."""
        last = self.values[-1]
        if self.rng.random() < 0.6:
            return last
        more = [self.rng.choice(self.values) for _ in range(self.rng.randint(1, 3))]
        fields = [*more, last]
        if self.rng.random() < 0.3:
            return relax.Tuple([fields[0], relax.Tuple(fields[1:])])
        return relax.Tuple(fields)
