"""Norms of torch by the statistics of their input, of any batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_torch import from_program

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")
BATCH = torch.export.Dim("batch", min=2, max=9)
NORMS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "instances": (nn.InstanceNorm2d(3), (2, 3, 5, 4)),
    "instances, scaled": (nn.InstanceNorm1d(3, affine=True), (2, 3, 7)),
    "batches": (nn.BatchNorm1d(6, track_running_stats=False), (4, 6)),
}


def program(module: nn.Module, shape: tuple[int, ...]) -> Any:
    return torch.export.export(module, (torch.randn(shape),), dynamic_shapes=({0: BATCH},))


@pytest.mark.parametrize("name", NORMS)
def test_norms_of_symbolic_batches(name: str) -> None:
    torch.manual_seed(0)
    module, shape = NORMS[name]
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    compiled = opinfo.compile(from_program(program(module, shape)), [])
    for batch in (2, 3, 9):
        x = torch.randn(batch, *shape[1:])
        got = np.asarray(compiled.run(x.numpy())[0])
        np.testing.assert_allclose(got, module(x).detach(), rtol=1e-4, atol=1e-5)


class Deviations(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5)[2]


def test_statistics_that_are_read_are_refused(tmp_path: Path) -> None:
    torch.export.save(program(Deviations(), (4, 6)), tmp_path / "m.pt2")
    with pytest.raises(FrontendError, match="the mean or the deviation of a batch norm is read"):
        opinfo.load(tmp_path / "m.pt2")


def test_layers_of_symbolic_sizes_are_normalised() -> None:
    """Scale and offset of the sizes are absent: a parameter's sizes are static."""

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            rows = torch.ops.aten.native_layer_norm(x, x.shape[1:], None, x[0], 1e-3)[0]
            return rows, nn.functional.layer_norm(x, x.shape[2:])

    dynamic = torch.export.Dim.DYNAMIC
    shapes = ({0: dynamic, 1: dynamic, 2: dynamic},)
    torch.manual_seed(0)
    exported = torch.export.export(Layer(), (torch.randn(2, 3, 5),), dynamic_shapes=shapes)
    compiled = opinfo.compile(from_program(exported), [])
    for extents in ((2, 3, 5), (4, 2, 7), (3, 9, 2)):
        x = torch.randn(extents)
        for got, expected in zip(compiled.run(x.numpy()), Layer()(x), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
