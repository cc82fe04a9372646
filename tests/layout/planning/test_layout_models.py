"""The models that layouts are planned for are what they are said to be."""

from __future__ import annotations

import pytest
from tvm import relax

from benchmarks.common import nets
from opinfo.layout.report.count import count
from tests.common.run import run


@pytest.mark.parametrize(("name", "conversions"), [("nhwc_import", 8), ("mixed", 9)])
def test_built_models_have_their_conversions_and_run(name: str, conversions: int) -> None:
    mod = nets.module(name)
    assert count(mod).number == count(relax.transform.LegalizeOps()(mod)).number == conversions
    (out,) = run(mod, nets.inputs(name))
    assert out.std() > 0.01


def test_an_imported_model_agrees_with_torch() -> None:
    import numpy as np
    import torch

    model, sample = nets.torch_model("unet")
    mod = nets.module("unet")
    assert len(mod["main"].params) == 1 and count(mod).number == 0
    (value,) = nets.inputs("unet")
    with torch.no_grad():
        expected = model(torch.from_numpy(value)).numpy()
    (got,) = run(mod, [value])
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    assert list(sample) == ["x"]


def test_every_model_has_an_input_and_unknown_ones_are_named() -> None:
    assert set(nets.INPUTS) == {*nets.NAMES, *nets.MORE}
    with pytest.raises(KeyError, match="unknown model 'alexnet'"):
        nets.module("alexnet")
