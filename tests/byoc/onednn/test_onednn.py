"""oneDNN: what it computes is what TVM computes, and what it refuses it names."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc import dispatch
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.compile import CompiledModule, compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .onednn_cases import CASES, inputs, module


@functools.cache
def compiled() -> CompiledModule:
    return compile_module(module(), ["onednn"], plan=False)


@functools.cache
def results() -> tuple[list[Any], list[Any]]:
    machine = compiled().machine()
    found = machine["main"](*map(tvm.runtime.tensor, inputs()))
    return run(module(), inputs()), [t.numpy() for t in found]


def test_it_is_installed() -> None:
    assert find("onednn").available() is None


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_tvm(name: str) -> None:
    k = list(CASES).index(name)
    expected, found = (side[k] for side in results())
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_every_case_is_taken_whole() -> None:
    assert [(o.op, o.why) for o in compiled().dispatched.left] == []
    taken = sorted(
        " ".join(o.rpartition(".")[2] for o in t.ops) for t in compiled().dispatched.taken
    )
    assert taken == sorted(c.ops for c in CASES.values())


def test_a_function_of_a_scalar_stays_with_tvm() -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.exp(e(relax.op.sum(x)))), (2, 3))
    (left,) = [o for o in dispatch(mod, ["onednn"]).left if o.op == "relax.exp"]
    assert left.why == "onednn, pattern pointwise: the result has no axes, expected at least one"


def test_regions_say_how_they_round_differently() -> None:
    told = {t.ops: t.rounds for t in compiled().dispatched.taken if t.rounds}
    factors = "factors by channel are multiplied into the weights"
    one = "several operators are computed as one function"
    sums = "sums by channel are added to each other first"
    assert {" ".join(o.rpartition(".")[2] for o in ops): how for ops, how in told.items()} == {
        "conv2d subtract divide multiply add leakyrelu": f"{factors}; {sums}",
        "conv2d multiply add relu": factors,
        "matmul multiply": factors,
        "conv2d add relu6 divide multiply multiply": one,
        "conv2d add relu minimum multiply divide": one,
        "matmul multiply divide erf add multiply": one,
    }


def test_shapes_at_run_time_have_kernels_of_their_own() -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = nets.net(lambda e, r, x: e(relax.op.matmul(x, const(r, 6, 5))), (n, 6), legal=False)
    machine = compile_module(mod, ["onednn"]).machine()
    for size in (1, 7, 64, 7):
        x = np.random.default_rng(size).standard_normal((size, 6)).astype("float32")
        np.testing.assert_allclose(
            machine["main"](tvm.runtime.tensor(x)).numpy(), run(mod, [x])[0], rtol=1e-4, atol=1e-5
        )


def test_shapes_in_other_forms_do_not_share_turned_weights() -> None:
    """A convolution over one column reads its square weights with height and width exchanged."""
    n, h, w = (tvm.tirx.Var(name, "int64") for name in "nhw")
    mod = nets.net(
        lambda e, r, x: e(relax.op.nn.conv2d(x, const(r, 6, 3, 3, 3), strides=2, padding=1)),
        (n, 3, h, w), legal=False)  # fmt: skip
    machine = compile_module(mod, ["onednn"]).machine()
    for height, width in ((9, 7), (16, 1), (1, 16), (16, 1)):
        x = np.random.default_rng(width).standard_normal((2, 3, height, width)).astype("float32")
        np.testing.assert_allclose(
            machine["main"](tvm.runtime.tensor(x)).numpy(), run(mod, [x])[0], rtol=1e-4, atol=1e-4
        )


def test_a_region_takes_only_the_tensors_that_it_was_made_for() -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.nn.relu(x)), (tvm.tirx.Var("n", "int64"), 6),
                   legal=False)  # fmt: skip
    made = compile_module(mod, ["onednn"])
    library = tvm.runtime.load_module(str(made.library))
    region = library.get_function("onednn_0", query_imports=True)
    x = np.random.default_rng(0).standard_normal((3, 6)).astype("float32")
    given, out = tvm.runtime.tensor(x), tvm.runtime.tensor(np.zeros_like(x))
    region(given, out)
    np.testing.assert_array_equal(out.numpy(), np.maximum(x, 0))
    for wrong in (x.astype("float64"), x[:, :5].copy(), x[0]):
        with pytest.raises(
            TypeError, match=r"onednn_0: argument 0 .* plain CPU tensor of f32\[\?, 6"
        ):
            region(tvm.runtime.tensor(wrong), out)
    with pytest.raises(TypeError, match="onednn_0: 1 arguments, expected 2"):
        region(given)


def test_a_transposed_convolution_has_its_channels_innermost_among_others() -> None:
    def build(e: Any, r: Any, x: Any) -> Any:
        y = e(relax.op.nn.conv2d(x, const(r, 8, 4, 3, 3), padding=1))
        y = e(relax.op.nn.conv2d_transpose(y, const(r, 8, 6, 2, 2), strides=(2, 2)))
        y = e(relax.op.nn.relu(e(relax.op.add(y, const(r, 1, 6, 1, 1)))))
        return e(relax.op.nn.conv2d(y, const(r, 5, 6, 3, 3)))

    mod = nets.net(build, (1, 4, 16, 16), legal=False)
    made = compile_module(mod, ["onednn"])
    assert made.dispatched.summary().endswith("onednn 5, tvm 0; 2 layout conversions")
    x = np.random.default_rng(0).standard_normal((1, 4, 16, 16)).astype("float32")
    found = made.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, run(mod, [x])[0], rtol=2e-4, atol=2e-5)


def test_convolutions_of_rows_have_their_channels_innermost() -> None:
    def build(e: Any, r: Any, x: Any) -> Any:
        y = e(relax.op.nn.conv1d(x, const(r, 8, 4, 3), padding=1))
        y = e(relax.op.nn.leakyrelu(e(relax.op.add(y, const(r, 1, 8, 1))), 0.1))
        y = e(relax.op.nn.conv1d_transpose(y, const(r, 8, 6, 4), strides=2, padding=1))
        return e(relax.op.nn.conv1d(y, const(r, 5, 6, 3), dilation=2))

    mod = nets.net(build, (1, 4, 40), legal=False)
    made = compile_module(mod, ["onednn"])
    assert made.dispatched.summary().endswith("onednn 5, tvm 0; 2 layout conversions")
    x = np.random.default_rng(0).standard_normal((1, 4, 40)).astype("float32")
    found = made.machine()["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, run(mod, [x])[0], rtol=2e-4, atol=2e-5)
