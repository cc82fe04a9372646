"""The test models are as described: weights fit, symbolic shapes stay, results are right."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from tests import models
from tests.common.run import run
from tests.models import transformer


@pytest.mark.part(*models.PART)
@pytest.mark.parametrize("name", models.NAMES)
def test_weights_fit_the_parameters_and_are_finite_and_not_constant(name: str) -> None:
    params = models.module(name)["main"].params
    weights = models.weights(name)
    values = [*models.inputs(name, batch=3), *weights]
    assert len(values) == len(params)
    for param, value in zip(params, values, strict=True):
        dims = tuple(getattr(d, "value", 3) for d in param.ty.shape.values)
        assert (value.shape, str(value.dtype)) == (dims, str(param.ty.dtype)), param.name
    for value in weights:
        assert np.isfinite(value).all()
        assert value.dtype.kind != "f" or value.size < 16 or value.std() > 0


@pytest.mark.parametrize("name", models.SYMBOLIC)
def test_batch_is_symbolic(name: str) -> None:
    (first, *_) = models.module(name)["main"].params
    assert isinstance(first.ty.shape.values[0], tirx.Var)


@pytest.mark.part(*models.PART)
@pytest.mark.parametrize("name", models.NAMES)
def test_every_model_is_legalised(name: str) -> None:
    left = set()
    mod = relax.transform.LegalizeOps()(models.module(name))

    def visit(node: object) -> None:
        if isinstance(node, tvm.ir.Call) and isinstance(node.op, tvm.ir.Op):
            left.add(node.op.name)

    relax.analysis.post_order_visit(mod["main"], visit)
    left = {op for op in left if op.startswith("relax.")}
    assert left <= {"relax.call_tir", "relax.cumsum"}  # cumsum is lowered by DispatchSortScan


@pytest.mark.slow
@pytest.mark.part(*(n for n in models.PART if n.removesuffix("_n") in models.TRANSFORMERS))
@pytest.mark.parametrize("name", [*models.TRANSFORMERS, *models.SYMBOLIC])
def test_import_computes_what_torch_computes(name: str) -> None:
    """Symbolic models run at another batch than they were exported with."""
    import torch

    plain = name.removesuffix("_n")
    values = models.inputs(name, batch=3)
    model, sample = transformer.torch_model(plain)
    with torch.no_grad():
        expected = model(**{key: torch.from_numpy(values[0]) for key in sample})
    got = run(models.module(name), [*values, *models.weights(name)])
    np.testing.assert_allclose(got[0], expected[0].numpy(), rtol=1e-4, atol=1e-4)
