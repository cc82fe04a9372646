"""Recurrent layers of torch are read whole, or decomposed where they cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import nn

from opinfo.analysis import op_info
from opinfo.analysis.recurrent.recurrence_operator import NAME
from opinfo.analysis.results.op_info import OpInfo
from opinfo.frontend.checks.normalise_module import tidy
from opinfo.frontend.formats.from_torch import from_program
from opinfo.testing.unoptimised import unoptimised

from .test_torch_programs import check

CALL = tvm.ir.Op.get("relax.call_tir")
BATCH = torch.export.Dim("batch", min=2, max=99)


def _loops(mod: tvm.IRModule) -> int:
    """The number of calls of PrimFuncs, each of which is a recurrence."""
    calls = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    called = [c.args[0] for c in calls if getattr(c, "op", None) == CALL]
    for function in {str(gvar): mod[gvar] for gvar in called}.values():
        info = op_info(function)
        assert isinstance(info, OpInfo) and info.name == NAME
    return len(called)


class _Continued(nn.Module):
    """An LSTM with states of its own to start from."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, num_layers=2, bidirectional=True)

    def forward(self, x: Any, h: Any, c: Any) -> Any:
        return self.lstm(x, (h, c))


class _Mixed(nn.Module):
    """A layer that no converter reads whole, and one that it could."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(5, 4, proj_size=3), nn.LSTM(3, 4)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)[0])[0]


NETS: dict[str, tuple[Any, int]] = {
    "lstm": (nn.LSTM(5, 4, num_layers=2, bidirectional=True, batch_first=True), 4),
    "gru": (nn.GRU(5, 4, num_layers=3), 3),
    "gru without biases": (nn.GRU(5, 4, bidirectional=True, bias=False), 2),
    "rnn": (nn.RNN(5, 4, num_layers=2, nonlinearity="relu"), 2),
    "rnn with tanh": (nn.RNN(5, 4), 1),
    "dropout that is off": (nn.LSTM(5, 4, num_layers=2, dropout=0.5), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", NETS)
def test_each_direction_of_a_layer_is_one_recurrence(name: str) -> None:
    torch.manual_seed(0)
    net, count = NETS[name]
    assert _loops(check(net, (torch.randn(6, 3, 5),))) == count


def test_a_symbolic_batch() -> None:
    """torch itself specialises the number of steps."""
    torch.manual_seed(0)
    net = nn.LSTM(5, 4, bidirectional=True)
    runs = [(torch.randn(6, n, 5),) for n in (7, 12, 2)]
    assert _loops(check(net, *runs, shapes=({1: BATCH},))) == 2


def test_first_states() -> None:
    torch.manual_seed(0)
    x, h, c = torch.randn(6, 3, 5), torch.randn(4, 3, 4), torch.randn(4, 3, 4)
    check(_Continued(), (x, h, c))


def test_few_steps_become_operators() -> None:
    torch.manual_seed(0)
    assert _loops(check(nn.LSTM(5, 4, bidirectional=True), (torch.randn(2, 3, 5),))) == 0


def test_parameters_that_stay_inputs() -> None:
    torch.manual_seed(0)
    net, x = nn.GRU(5, 4), torch.randn(6, 3, 5)
    program = torch.export.export(net, (x,))
    mod = tidy(from_program(program, keep_params_as_input=True))
    params = [p.numpy() for p in mod["main"].attrs["params"]]
    mod = mod.clone()
    mod["main"] = mod["main"].without_attr("params")
    machine = tvm.relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    got = machine["main"](*map(tvm.runtime.tensor, (x.numpy(), *params)))
    for ours, theirs in zip(got, net(x), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.detach(), atol=1e-6)


OTHERS: dict[str, tuple[Any, torch.dtype]] = {
    "projection": (nn.LSTM(5, 4, proj_size=3), torch.float32),
    "float64": (nn.LSTM(5, 4), torch.float64),
    "float16": (nn.GRU(5, 4), torch.float16),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_are_decomposed(name: str) -> None:
    torch.manual_seed(0)
    net, dtype = OTHERS[name]
    assert _loops(check(net.to(dtype), (torch.randn(6, 3, 5).to(dtype),))) == 0


def test_a_program_with_one_layer_of_another_kind_is_decomposed() -> None:
    torch.manual_seed(0)
    assert _loops(check(_Mixed(), (torch.randn(6, 3, 5),))) == 0
