"""oneDNN: convolutions by Winograd are exact over the rationals, and close in float32."""

from __future__ import annotations

import ctypes
import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn.measured_forms import CLOSE
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .onednn_cases import implemented

nn, op = relax.op.nn, relax.op
CONVERT = importlib.import_module("opinfo.byoc.backends.onednn.convert")
HEADER = files("opinfo.byoc.backends.onednn") / "cpp" / "loops" / "winograd_transforms.hpp"
FORMS = ("winograd2", "winograd4")
#: Each form with products by a primitive, and by loops of our own.
BUILDS = tuple(form + name for form in FORMS for name in ("", " implementation 1 tiles:own"))
Matrix = list[list[Fraction]]


def _matrices(outputs: int) -> tuple[Matrix, Matrix, Matrix]:
    """The matrices of the header for the output, the weights and the input."""
    text = HEADER.read_text()
    body = text.split(f"struct Minimal<{outputs}>")[1].split("\n};")[0]

    def matrix(name: str) -> Matrix:
        table = re.search(rf"{name}\[\d\]\[\d\] =\s*(\{{.*?\}}\}});", body, re.DOTALL)
        assert table is not None
        rows = re.findall(r"\{([^{}]+)\}", table[1])
        return [[_fraction(e) for e in row.split(",")] for row in rows]

    return matrix("kOutput"), matrix("kWeights"), matrix("kInput")


def _fraction(text: str) -> Fraction:
    above, _, below = text.strip().partition(" / ")
    return Fraction(above.rstrip(".")) / Fraction(below or "1")


@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_the_transforms_compose_to_a_convolution(outputs: int) -> None:
    """Both sides are linear in data and weights, so equal coefficients prove them equal."""
    output, weights, data = _matrices(outputs)
    points, taps = len(data), len(weights[0])
    assert points == outputs + taps - 1 and len(output) == outputs
    for i, k, j in product(range(outputs), range(taps), range(points)):
        found = sum(output[i][p] * weights[p][k] * data[p][j] for p in range(points))
        assert found == int(j == i + k)


@pytest.mark.parametrize("outputs", [2, 4])
def test_what_runs_in_float32_has_no_rounded_factors(outputs: int) -> None:
    output, _, data = _matrices(outputs)
    for factor in (e for matrix in (output, data) for row in matrix for e in row):
        assert Fraction(float(np.float32(float(factor)))) == factor


@dataclass(frozen=True)
class Conv:
    """A convolution with channels innermost, and what follows it."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    after: Callable[..., Any] = lambda e, r, y: y
    #: The shape of one more input, for what follows.
    other: tuple[int, ...] | None = None

    def build(self, emit: Any, rng: Any, x: Any, *others: Any) -> Any:
        if len(self.x) == 3:
            y = nn.conv1d(x, const(rng, *self.w), data_layout="NWC", kernel_layout="OWI",
                          **self.attrs)  # fmt: skip
        else:
            y = nn.conv2d(x, const(rng, *self.w), data_layout="NHWC", kernel_layout="OHWI",
                          **self.attrs)  # fmt: skip
        return self.after(emit, rng, emit(y), *others)

    @property
    def inputs(self) -> tuple[tuple[int, ...], ...]:
        return (self.x,) if self.other is None else (self.x, self.other)


def _bias_and_steps(e: Any, r: Any, y: Any) -> Any:
    """A bias, one each of what tiles know, and one that they do not."""
    y = e(op.add(y, const(r, 24)))
    y = e(op.clip(e(nn.leakyrelu(y, 0.3)), -4, 6))
    return e(nn.relu(e(op.tanh(e(op.add(y, relax.const(0.25)))))))


def _residual(e: Any, r: Any, y: Any, z: Any) -> Any:
    return e(nn.relu(e(op.subtract(e(op.add(y, z)), const(r, 1, 1, 1, 17)))))


def _gated(e: Any, r: Any, y: Any, z: Any) -> Any:
    return e(op.maximum(e(op.multiply(e(nn.silu(y)), z)), relax.const(-0.125)))


def _bounded(e: Any, r: Any, y: Any, z: Any) -> Any:
    y = e(op.minimum(e(op.divide(y, relax.const(3.0))), z))
    return e(op.maximum(e(op.sigmoid(y)), z))


def _hard(e: Any, r: Any, y: Any) -> Any:
    gate = e(op.clip(e(op.add(y, relax.const(3.0))), 0, 6))
    return e(op.multiply(y, e(op.divide(gate, relax.const(6.0)))))


CASES = {
    "odd, batch of two, bias": Conv((2, 9, 7, 19), (24, 3, 3, 19), {"padding": 1},
                                    _bias_and_steps),
    "no padding, residual": Conv((1, 6, 11, 16), (17, 3, 3, 16), {}, _residual, (1, 4, 9, 17)),
    "padding of two, scaled for each image": Conv((2, 5, 5, 16), (16, 3, 3, 16), {"padding": 2},
                                                  _gated, (2, 1, 1, 16)),
    "smaller than a tile": Conv((1, 1, 2, 16), (33, 3, 3, 16), {"padding": (1, 1, 1, 2)}),
    "many tiles": Conv((1, 46, 50, 64), (48, 3, 3, 64), {"padding": 1}, _hard),
    "dilated": Conv((1, 13, 11, 16), (16, 3, 3, 16), {"padding": 2, "dilation": (2, 3)}),
    "window of five": Conv((1, 9, 10, 16), (16, 5, 5, 16), {"padding": 2}, _bounded,
                           (1, 9, 10, 1)),
    "a column": Conv((1, 12, 5, 16), (16, 3, 1, 16), {"padding": (1, 0)}),
    "more channels than are summed up at a time": Conv((1, 6, 6, 272), (20, 3, 3, 272)),
    "one axis": Conv((2, 37, 16), (20, 3, 16), {"padding": 1}),
    "one axis, long and dilated": Conv((1, 41, 16), (16, 7, 16), {"padding": 9, "dilation": 3}),
}  # fmt: skip


def _module(copies: int) -> Any:
    """Each case so many times, with the same constants."""
    given = [relax.Var(f"x{k}_{j}", relax.TensorType(s, "float32"))
             for k, c in enumerate(CASES.values()) for j, s in enumerate(c.inputs)]  # fmt: skip
    bb, results = relax.BlockBuilder(), []
    with bb.function("main", given):
        with bb.dataflow():
            at = iter(given)
            for k, case in enumerate(CASES.values()):
                own = [next(at) for _ in case.inputs]
                results += [case.build(bb.emit, np.random.default_rng(k), *own)
                            for _ in range(copies)]  # fmt: skip
            out = bb.emit_output(relax.Tuple(results))
        bb.emit_func_output(out)
    return bb.get()


@pytest.fixture
def three_threads() -> Iterator[None]:
    """The threads that libraries on libgomp use from here, on any number of cores."""
    library = ctypes.CDLL("libgomp.so.1")
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(3)
    yield
    library.omp_set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_tiles_compute_what_tvm_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks of a thread each (``many tiles``), and in blocks that threads share."""
    seen: list[str] = []

    def each(jobs: Iterable[str], _: object) -> list[str]:
        forms = []
        for job in jobs:
            has = implemented(job, FORMS) == list(FORMS)
            forms.append(f"only {BUILDS[seen.count(job)]}" if has else "")
            seen.extend([job] * has)
        return forms

    monkeypatch.setattr(CONVERT, "chosen_forms", each)
    rng = np.random.default_rng(1)
    shapes = [s for case in CASES.values() for s in case.inputs]
    inputs = [rng.standard_normal(s).astype("float32") for s in shapes]
    machine = compile_module(_module(len(BUILDS)), ["onednn"], plan=False).machine()
    found = machine["main"](*map(tvm.runtime.tensor, inputs))
    expected = [e for e in run(_module(1), inputs) for _ in BUILDS]
    assert len(seen) == len(expected) == len(found)
    for one, two in zip(found, expected, strict=True):
        assert np.abs(one.numpy() - two).max() <= CLOSE * np.abs(two).max()


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("name", ["no padding, residual", "many tiles", "smaller than a tile",
                                  "one axis", "one axis, long and dilated"])  # fmt: skip
def test_sums_that_are_not_finite_are_those_of_a_direct_convolution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transforms subtract infinities, and overflow where the sum over a window does not."""
    case = CASES[name]
    mod = nets.net(case.build, *case.inputs, legal=False)
    machines = []
    for form in ("straight", *BUILDS):
        words = f"only {form}"
        monkeypatch.setattr(CONVERT, "chosen_forms", lambda jobs, _, w=words: [w for _ in jobs])
        machines.append(compile_module(mod, ["onednn"], plan=False).machine())
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal(s).astype("float32") for s in case.inputs]
    for one in (0.5, np.inf, -np.inf, np.nan, 2e38, 0.25):
        inputs[0].reshape(-1, inputs[0].shape[-1])[1, 3] = one
        expected, *found = (
            m["main"](*map(tvm.runtime.tensor, inputs)).numpy() for m in machines
        )  # fmt: skip
        finite = np.isfinite(expected)
        limit = CLOSE * np.abs(expected[finite]).max(initial=0)
        for each in found:
            np.testing.assert_array_equal(each[~finite], expected[~finite])
            np.testing.assert_allclose(each[finite], expected[finite], rtol=0, atol=limit)


def test_an_infinite_pixel_is_infinite_only_in_its_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CONVERT, "chosen_forms", lambda jobs, _: ["only winograd4" for _ in jobs])
    case = Conv((1, 40, 16), (16, 3, 16), {"padding": 1})
    machine = compile_module(nets.net(case.build, *case.inputs, legal=False), ["onednn"],
                             plan=False).machine()  # fmt: skip
    data = np.ones((1, 40, 16), "float32")
    data[0, 20, 5] = np.inf
    found = machine["main"](tvm.runtime.tensor(data)).numpy()
    assert np.isinf(found[0, 19:22]).all()
    assert np.isfinite(np.delete(found, [19, 20, 21], axis=1)).all()
