"""Programs of torch are decomposed with the requested extents, and otherwise with symbols."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn

from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.checks.input_shapes import Shapes, bind_shapes
from opinfo.frontend.checks.tidy import tidy
from opinfo.frontend.formats import torch_extents
from opinfo.frontend.formats.from_torch import from_program

Dim = torch.export.Dim


class Mixer(nn.Module):
    """Reads the extents of both inputs: `(batch, n, 8)` and `(batch, 4 * k)`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(x.shape[1]).view(1, -1, 1)
        mixed = (self.linear(x) + rows).flatten(1).softmax(-1)
        return torch.cat([mixed, y.view(x.shape[0], 4, -1).mean(-1) / y.shape[1]], 1)


@pytest.fixture(scope="module")
def module() -> nn.Module:
    torch.manual_seed(0)
    return Mixer().eval()


def exported(module: nn.Module) -> Any:
    batch, n, k = Dim("batch", min=2, max=9), Dim("n", min=3, max=64), Dim("k", min=2, max=64)
    args = torch.randn(3, 5, 8), torch.randn(3, 12)
    dynamic = {"x": {0: batch, 1: n}, "y": {0: batch, 1: 4 * k}}
    return torch.export.export(module, args, dynamic_shapes=dynamic, strict=False)


def imported(module: nn.Module, shapes: Shapes) -> tvm.IRModule:
    return bind_shapes(tidy(from_program(exported(module), shapes=shapes)), shapes)


def symbols(mod: tvm.IRModule) -> set[str]:
    """Return the symbolic extents of the parameters of ``main``."""
    dims = [d for p in mod["main"].params for d in p.ty.shape.values]
    return {d.name for d in dims if isinstance(d, tvm.ir.Var)}


def test_requested_extents_compute_what_torch_computes(module: nn.Module) -> None:
    x, y = torch.randn(4, 7, 8), torch.randn(4, 20)
    shapes: Shapes = {"x": (4, 7, 8), "y": (4, 20)}
    assert torch_extents.bind_extents(exported(module), shapes)
    mod = imported(module, shapes)
    assert not symbols(mod)
    machine = tvm.relax.VirtualMachine(tvm.compile(mod, "llvm"), tvm.cpu())
    out = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in (x, y)))
    got = out if isinstance(out, tvm.runtime.Tensor) else out[0]
    with torch.no_grad():
        np.testing.assert_allclose(got.numpy(), module(x, y).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": (4, 7, 8)},  # k is not decided
        {"x": (4, "m", 8), "y": (4, 20)},
        {"x": (4, "?", 8), "y": (4, 20)},
        {"x": (4, 7, 8), "y": (5, 20)},  # two values for batch
        {"x": (4, 7, 8), "y": (4, 21)},  # not a multiple of 4
        {"x": (4, 7, 9), "y": (4, 20)},  # the file says 8
        {"x": (4, 65, 8), "y": (4, 20)},  # beyond the range of n
        {"x": (4, 7), "y": (4, 20)},
        {},
    ],
)
def test_other_requests_keep_the_symbols(module: nn.Module, shapes: Shapes) -> None:
    program = exported(module)
    before = {n: n.meta["val"] for n in program.graph.nodes if n.op == "placeholder"}
    assert torch_extents.bind_extents(program, shapes) == {}
    assert all(node.meta["val"] is value for node, value in before.items())


def test_a_program_that_numbers_break_is_read_with_symbols(
    module: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = exported(module)
    decompose = type(program).run_decompositions

    def run(self: Any, *args: Any) -> Any:
        inputs = [n.meta["val"] for n in self.graph.nodes if n.name == "x"]
        if all(isinstance(e, int) for e in inputs[0].shape):
            raise RuntimeError("numbers")
        return decompose(self, *args)

    monkeypatch.setattr(type(program), "run_decompositions", run)
    mod = from_program(program, shapes={"x": (4, 7, 8), "y": (4, 20)})
    assert len(symbols(tidy(mod))) == 3


class Branching(nn.Module):
    """Computes another function of few rows, which an export of many rows does not have."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x * 2 if x.shape[0] > 4 else x * 3), y * 2


def test_a_size_outside_of_its_range_is_refused() -> None:
    """A size that torch says is at least 2 has no bound: torch runs it at 1."""
    k, n = Dim("k"), Dim("n", min=5, max=9)
    program = torch.export.export(Branching(), (torch.randn(6, 3), torch.randn(8)),
                                  dynamic_shapes=({0: n}, {0: 4 * k}))  # fmt: skip

    def read(rows: int) -> tvm.IRModule:
        shapes: Shapes = {"x": (rows, 3), "y": (4,)}
        return bind_shapes(tidy(from_program(program, shapes=shapes)), shapes)

    for rows in (5, 9):
        assert not symbols(read(rows))
    for rows in (4, 10):
        with pytest.raises(FrontendError, match=f"at least 5 and at most 9 .*, got {rows}"):
            read(rows)
