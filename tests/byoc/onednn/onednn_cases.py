"""Small graphs that oneDNN takes whole, each as one region unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

from opinfo.analysis.composites.products import transposed_matmul
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Region
from opinfo.byoc.backends.onednn.implementation_probe import ask
from opinfo.byoc.compile import compile_module

from ...layout.nets import const

nn, op = relax.op.nn, relax.op
N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")
Build = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """``ops``: what the region has in it, without the ``relax.`` and ``nn.``."""

    shapes: tuple[tuple[Any, ...], ...]
    build: Build
    ops: str


def implemented(job: str, forms: Iterable[str]) -> list[str]:
    """Which of some forms oneDNN has for the region of a job."""
    answers = {form: ask(f"query 0 {job} only {form}") or {} for form in forms}
    return [form for form, answer in answers.items() if "steps" in answer]


def region_of(mod: Any) -> Region:
    """The region of a module that oneDNN takes whole."""
    seen: list[Region] = []

    def convert(regions: Any) -> Any:
        seen.extend(regions)
        raise ValueError("enough")

    with pytest.warns(UserWarning, match="enough"):
        compile_module(mod, [replace(find("onednn"), convert=convert)], plan=False)
    return seen[0]


def _conv2d(x: tuple[int, ...], w: tuple[int, ...], **attrs: Any) -> Case:
    return Case((x,), lambda e, r, v: e(nn.conv2d(v, const(r, *w), **attrs)), "conv2d")


def _chain(*after: Callable[[Any, Any], Any], ops: str) -> Case:
    """A convolution, and functions of its result and a generator of random numbers."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=1))
        for f in after:
            y = emit(f(y, rng))
        return y

    return Case(((2, 4, 6, 6),), build, ops)


def _channel(rng: np.random.Generator) -> Any:
    return const(rng, 1, 8, 1, 1)


def _positive(rng: np.random.Generator) -> Any:
    return relax.const(rng.uniform(0.5, 2, (1, 8, 1, 1)).astype("float32"))


def _residual(emit: Any, rng: Any, x: Any, y: Any) -> Any:
    z = emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=1))
    return emit(nn.relu(emit(op.add(y, z))))


def _nhwc(emit: Any, rng: Any, x: Any, y: Any) -> Any:
    z = nn.conv2d(x, const(rng, 8, 3, 3, 4), padding=1, data_layout="NHWC", kernel_layout="OHWI")
    z = emit(op.add(emit(z), const(rng, 8)))
    return emit(op.multiply(emit(op.subtract(y, z)), y))


def _weights(emit: Any, rng: Any, x: Any, w: Any) -> Any:
    return emit(nn.conv2d(x, w, padding=1))


def _dense(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.matmul(x, const(rng, 6, 5)))
    return emit(nn.gelu(emit(op.add(const(rng, 5), y))))


def _hard_swish(emit: Any, rng: Any, x: Any) -> Any:
    """By a literal, then by what was before."""
    y = emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=1))
    bounded = emit(op.clip(emit(op.add(y, relax.const(3.0))), 0, 6))
    y = emit(op.multiply(emit(op.divide(bounded, relax.const(6.0))), y))
    return emit(op.multiply(y, _channel(rng)))


def _bounded_swish(emit: Any, rng: Any, x: Any) -> Any:
    """With a bound from each side, as Paddle exports it."""
    y = emit(nn.conv2d(x, const(rng, 8, 4, 3, 3), padding=1))
    one = [relax.const(np.asarray([v], "float32")) for v in (3, 6, 6)]
    bounded = emit(op.minimum(emit(nn.relu(emit(op.add(y, one[0])))), one[1]))
    return emit(op.divide(emit(op.multiply(y, bounded)), one[2]))


def _erf(emit: Any, rng: Any, x: Any) -> Any:
    y = emit(op.matmul(x, const(rng, 6, 5)))
    half = emit(op.multiply(y, relax.const(0.5)))
    risen = emit(op.add(emit(op.erf(emit(op.divide(y, relax.const(2**0.5))))), relax.const(1.0)))
    return emit(op.multiply(half, risen))


def _layer_norm(emit: Any, rng: Any, x: Any) -> Any:
    return emit(nn.layer_norm(x, const(rng, 6), const(rng, 6), axes=[-1]))


def _pool(f: Any, x: tuple[Any, ...], *args: Any, **attrs: Any) -> Case:
    return Case((x,), lambda e, r, v: e(f(v, *args, **attrs)), f.__name__)


def _product(one: tuple[Any, ...], two: tuple[Any, ...]) -> Case:
    return Case((one, two), lambda e, r, x, y: e(op.matmul(x, y)), "matmul")


def _transposed(one: tuple[Any, ...], two: tuple[Any, ...], *swaps: bool) -> Case:
    return Case((one, two), lambda e, r, x, y: e(transposed_matmul(x, y, transposed=swaps)),
                "transposed_matmul")  # fmt: skip


def _swapped_weights(emit: Any, rng: Any, x: Any) -> Any:
    """Factors of columns are not those of the weights' last axis."""
    y = emit(transposed_matmul(x, const(rng, 5, 6)))
    return emit(op.add(emit(op.multiply(y, const(rng, 5))), const(rng, 5)))


IMAGE = (2, 4, 7, 6)
CASES: dict[str, Case] = {
    "conv1d": Case(((2, 4, 9),), lambda e, r, x: e(
        nn.conv1d(x, const(r, 6, 4, 3), strides=2, padding=1)), "conv1d"),
    "conv3d": Case(((1, 3, 4, 5, 6),), lambda e, r, x: e(
        nn.conv3d(x, const(r, 4, 3, 2, 3, 3), padding=(0, 1, 1))), "conv3d"),
    "padded on one side": _conv2d(IMAGE, (8, 4, 3, 3), padding=(0, 1, 2, 1)),
    "strided, dilated": _conv2d(IMAGE, (8, 4, 3, 2), strides=(2, 1), dilation=(2, 1), padding=1),
    "grouped": _conv2d(IMAGE, (6, 2, 3, 3), groups=2),
    "depthwise": _conv2d(IMAGE, (4, 1, 3, 3), groups=4, padding=1),
    "NHWC HWIO": _conv2d((2, 7, 6, 4), (3, 3, 4, 8), data_layout="NHWC", kernel_layout="HWIO"),
    "NHWC grouped": _conv2d((2, 7, 6, 4), (6, 3, 3, 2), data_layout="NHWC", kernel_layout="OHWI",
                            groups=2),
    "batch known at run time": _conv2d((N, 4, 5, 5), (8, 4, 3, 3), padding=1),
    "weights as an input": Case((IMAGE, (8, 4, 3, 3)), _weights, "conv2d"),
    "transposed": Case((IMAGE,), lambda e, r, x: e(nn.conv2d_transpose(
        x, const(r, 4, 6, 3, 3), strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1))),
        "conv2d_transpose"),
    "transposed, grouped": Case((IMAGE,), lambda e, r, x: e(op.add(e(nn.conv2d_transpose(
        x, const(r, 4, 3, 2, 2), strides=(2, 2), groups=2)), const(r, 1, 6, 1, 1))),
        "conv2d_transpose add"),
    "bias, relu": _chain(lambda y, r: op.add(y, _channel(r)), lambda y, r: nn.relu(y),
                         ops="conv2d add relu"),
    "normalised": _chain(
        lambda y, r: op.subtract(y, _channel(r)), lambda y, r: op.divide(y, _positive(r)),
        lambda y, r: op.multiply(y, _channel(r)), lambda y, r: op.add(_channel(r), y),
        lambda y, r: nn.leakyrelu(y, 0.1), ops="conv2d subtract divide multiply add leakyrelu"),
    "factor, bias": _chain(lambda y, r: op.multiply(y, _channel(r)), lambda y, r: op.add(
        y, _channel(r)), lambda y, r: nn.relu(y), ops="conv2d multiply add relu"),
    "dense, scaled": Case(((N, 6),), lambda e, r, x: e(op.multiply(e(op.matmul(
        x, const(r, 6, 5))), const(r, 5))), "matmul multiply"),
    "factor not known": Case(((2, 4, 6, 6), (8, 1, 1)), lambda e, r, x, y: e(op.add(e(
        op.multiply(e(nn.conv2d(x, const(r, 8, 4, 3, 3))), y)), _channel(r))),
        "conv2d multiply add"),
    "bounded": _chain(lambda y, r: op.clip(y, -0.25, 0.5), lambda y, r: op.add(y, _channel(r)),
                      lambda y, r: op.multiply(y, relax.const(-1.5)),
                      ops="conv2d clip add multiply"),
    "silu, tanh": _chain(lambda y, r: nn.silu(y), lambda y, r: op.tanh(y),
                         lambda y, r: op.sigmoid(y), ops="conv2d silu tanh sigmoid"),
    "from a literal": _chain(lambda y, r: op.subtract(relax.const(1.0), y),
                             lambda y, r: op.exp(y), ops="conv2d subtract exp"),
    "concatenated": Case(((2, 3, 4), (2, 5, 4), (2, 1, 4)), lambda e, r, *xs: e(nn.relu(e(
        op.concat(xs, 1)))), "concat relu"),
    "concatenated, extents at run time": Case(((N, 4), (M, 4)), lambda e, r, x, y: e(
        op.concat((x, y, x), 0)), "concat"),
    "transposed, then activated": Case((IMAGE,), lambda e, r, x: e(nn.silu(e(op.add(e(
        nn.conv2d_transpose(x, const(r, 4, 6, 2, 2), strides=(2, 2))), const(r, 1, 6, 1, 1))))),
        "conv2d_transpose add silu"),
    "residual": Case(((2, 4, 6, 6), (2, 8, 6, 6)), _residual, "conv2d add relu"),
    "NHWC, chain subtracted": Case(((2, 6, 6, 4), (2, 6, 6, 8)), _nhwc,
                                   "conv2d add subtract multiply"),
    "matmul": _product((4, 6), (6, 5)),
    "matmul of a batch": _product((3, 4, 6), (3, 6, 5)),
    "matmul, broadcast": _product((2, 1, 4, 6), (3, 6, 5)),
    "matmul, extents at run time": _product((N, 4, M), (N, M, 5)),
    "rows of two matrices": _transposed((4, 6), (5, 6), False, True),
    "columns of a batch": _transposed((3, 6, 4), (3, 6, 5), True, False),
    "columns and rows, broadcast": _transposed((2, 1, 6, 4), (3, 5, 6), True, True),
    "rows of one matrix for a batch": _transposed((N, M, 6), (5, 6), False, True),
    "rows of weights, scaled": Case(((N, 3, 6),), _swapped_weights,
                                    "transposed_matmul multiply add"),
    "dense": Case(((N, 3, 6),), _dense, "matmul add gelu"),
    "max_pool": _pool(nn.max_pool2d, IMAGE, (3, 2), (2, 2), (1, 0, 1, 1)),
    "max_pool, ceiled": _pool(nn.max_pool2d, IMAGE, (2, 2), (2, 2), ceil_mode=True),
    "avg_pool of what is there": _pool(nn.avg_pool2d, IMAGE, (3, 3), (2, 2), (1, 1, 1, 1)),
    "avg_pool with padding": _pool(nn.avg_pool2d, IMAGE, (3, 3), (2, 2), (1, 1, 1, 1),
                                   count_include_pad=True),
    "max_pool NHWC": _pool(nn.max_pool2d, (2, 7, 6, 4), (2, 2), (2, 2), layout="NHWC"),
    "global pool": _pool(nn.adaptive_avg_pool2d, IMAGE, (1, 1)),
    "mean of a picture": Case(((2, 4, 7, 6),), lambda e, r, x: e(op.add(e(
        op.mean(x, [2, 3])), const(r, 4))), "mean add"),
    "mean of NHWC": Case(((N, 7, 6, 4),), lambda e, r, x: e(op.multiply(e(
        op.mean(x, [1, 2], keepdims=True)), const(r, 4))), "mean multiply"),
    "mean of rows": Case(((3, N, 5),), lambda e, r, x: e(op.mean(x, [-1])), "mean"),
    "softmax": Case(((2, 5, 4),), lambda e, r, x: e(nn.softmax(x, 1)), "softmax"),
    "log_softmax": Case(((N, 5),), lambda e, r, x: e(nn.log_softmax(x, -1)), "log_softmax"),
    "hard swish": Case((IMAGE,), _hard_swish, "conv2d add relu6 divide multiply multiply"),
    "hard swish, with two bounds": Case((IMAGE,), _bounded_swish,
                                        "conv2d add relu minimum multiply divide"),
    "scaled for each image": Case(((N, 7, 6, 4), (N, 1, 1, 4)), lambda e, r, x, y: e(
        nn.relu(e(op.multiply(x, y)))), "multiply relu"),
    "product and a table of rows": Case(((N, 3, 6),), lambda e, r, x: e(op.add(e(op.matmul(
        x, const(r, 6, 5))), const(r, 3, 5))), "matmul add"),
    "gelu, written out": Case(((N, 6),), _erf, "matmul multiply divide erf add multiply"),
    "layer_norm": Case(((N, 3, 6),), _layer_norm, "layer_norm"),
    "rms_norm": Case(((N, 3, 6),), lambda e, r, x: e(nn.rms_norm(x, const(r, 6), [-1])),
                     "rms_norm"),
    "rms_norm of many columns, with a factor at run time, then a sum": Case(
        ((3, 150), (150,), (3, 150)), lambda e, r, x, w, y: e(op.add(e(
            nn.rms_norm(x, w, [1], 0.25)), y)), "rms_norm add"),
    "rms_norm in several parts": Case(((900, 90),), lambda e, r, x: e(
        nn.rms_norm(x, const(r, 90), [-1])), "rms_norm"),
    "greater than a tensor": Case(((2, 4, 6, 6), (2, 8, 6, 6)), lambda e, r, x, y: e(nn.relu(e(
        op.maximum(e(nn.conv2d(x, const(r, 8, 4, 3, 3), padding=1)), y)))), "conv2d maximum relu"),
    "product less than a tensor": Case(((4, 6), (4, 5)), lambda e, r, x, y: e(op.minimum(y, e(
        op.matmul(x, const(r, 6, 5))))), "matmul minimum"),
    "less than a row": Case(((N, 6),), lambda e, r, x: e(op.minimum(e(
        op.matmul(x, const(r, 6, 5))), const(r, 5))), "matmul minimum"),
    "greater of inputs": Case((IMAGE, IMAGE), lambda e, r, x, y: e(op.maximum(x, y)), "maximum"),
    "sum of inputs": Case((IMAGE, IMAGE), lambda e, r, x, y: e(nn.relu(e(op.add(x, y)))),
                          "add relu"),
}  # fmt: skip
SIZES = {"n": 3, "m": 7}


def module() -> Any:
    """All cases in one function: an input for each shape, a tuple of the results."""
    rng = np.random.default_rng(0)
    given = {name: [relax.Var(f"x{k}_{j}", relax.TensorType(s, "float32"))
                    for j, s in enumerate(c.shapes)]
             for k, (name, c) in enumerate(CASES.items())}  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given.values() for v in vs]):
        with bb.dataflow():
            made = [c.build(bb.emit, rng, *given[name]) for name, c in CASES.items()]
            out = bb.emit_output(relax.Tuple(made))
        bb.emit_func_output(out)
    return bb.get()


def inputs() -> list[Any]:
    rng = np.random.default_rng(1)
    shapes = [s for c in CASES.values() for s in c.shapes]
    sized = [[e if isinstance(e, int) else SIZES[e.name] for e in s] for s in shapes]
    return [rng.standard_normal(s).astype("float32") for s in sized]
