"""Products with sizes that are known at run time: one library, many shapes."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.compile import CompiledModule, compile_module

from ....common.kept_objects import keep_objects
from ....layout import nets
from ..test_nvidia import on_stub
from ..test_nvidia_symbolic import B, S, module

nn, op = relax.op.nn, relax.op
WIDTH = 48


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        keep_objects(patch)
        patch.setenv("OPINFO_CACHE", str(folder))
        patch.setenv("OPINFO_CUBLASLT_ROWS", "8")
        yield folder


def _products(emit: Any, x: Any) -> Any:
    """A product with weights, and one of a batch."""
    rng = np.random.default_rng(7)
    weights, bias = (relax.const(rng.standard_normal(s).astype("float16") / 8)
                     for s in ((WIDTH, 24), (24,)))  # fmt: skip
    y = emit(nn.relu(emit(op.add(emit(op.matmul(x, weights)), bias))))
    return emit(op.matmul(y, emit(op.permute_dims(y, [0, 2, 1]))))


@functools.cache
def products() -> CompiledModule:
    """One library of `_products`, and of a product of two inputs."""
    main = module(_products, ((B, S, WIDTH),))["main"]
    plain = nets.net(lambda e, r, x, y: e(op.matmul(x, y)), (B, 6), (6, 5), legal=False)["main"]
    functions = {"main": main, "plain": plain.with_attr("global_symbol", "plain")}
    return compile_module(tvm.IRModule(functions), [on_stub("cublaslt")], plan=False)


def test_a_region_takes_only_the_tensors_that_it_was_made_for() -> None:
    made = products()
    assert len(made.dispatched.taken) == 3
    (taken,) = (t for t in made.dispatched.taken if t.ops == ("relax.matmul",) and t.rounds is None)
    library = tvm.runtime.load_module(str(made.library))
    region = library.get_function(taken.symbol, query_imports=True)
    x, y = (np.random.default_rng(k).standard_normal(s).astype("float32")
            for k, s in enumerate([(3, 6), (6, 5)]))  # fmt: skip
    out = tvm.runtime.tensor(np.zeros((3, 5), "float32"))
    one, two = map(tvm.runtime.tensor, (x, y))
    region(one, two, out)
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match=r"argument 0 is not a plain tensor of float32\[\?, 6\]"):
        region(tvm.runtime.tensor(x.astype("float16")), two, out)
    with pytest.raises(TypeError, match="2 arguments, expected 3"):
        region(one, two)
    with pytest.raises(ValueError, match="do not fit each other"):
        region(tvm.runtime.tensor(np.zeros((4, 6), "float32")), two, out)


def test_products_with_weights_and_of_batches_are_right_for_every_shape() -> None:
    main = products().machine()["main"]
    for shape in ((2, 5, WIDTH), (1, 9, WIDTH), (1, 3, WIDTH), (1, 1, WIDTH)):
        x = np.random.default_rng(2).standard_normal(shape).astype("float16")
        rng = np.random.default_rng(7)
        weights, bias = (rng.standard_normal(s).astype("float16") / 8 for s in ((WIDTH, 24), 24))
        y = np.maximum(x.astype("float64") @ weights + bias, 0)
        expected = y @ y.transpose(0, 2, 1)
        found = main(tvm.runtime.tensor(x)).numpy()
        assert np.abs(found - expected).max() / np.abs(expected).max() < 2e-2
