"""Programs of torch that write in place return the new values, which torch has after a call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch import Tensor, nn
from tvm import relax

import opinfo
from opinfo.frontend.checks.notes import without_notes
from opinfo.frontend.formats.from_torch import from_program
from opinfo.testing.unoptimised import unoptimised
from opinfo.transform import AppendToCaches

ROOM, WIDTH = 8, 4


def index_copy(cache: Tensor, places: Tensor, rows: Tensor) -> None:
    cache.index_copy_(2, places, rows)


def index_put(cache: Tensor, places: Tensor, rows: Tensor) -> None:
    cache[:, :, places] = rows


def slices(cache: Tensor, places: Tensor, rows: Tensor) -> None:
    cache[:, :, 2 : 2 + rows.shape[2]] = rows


def copied(cache: Tensor, places: Tensor, rows: Tensor) -> None:
    cache.copy_(cache + rows.sum())


class Attention(nn.Module):
    """A layer with a static cache of keys, which is a buffer or an input."""

    def __init__(self, write: Callable[..., None], buffer: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.write, self.project = write, nn.Linear(WIDTH, 2 * WIDTH)
        if buffer:
            self.register_buffer("keys", torch.zeros(1, 1, ROOM, WIDTH))

    def forward(self, x: Tensor, places: Tensor, cache: Tensor | None = None) -> Tensor:
        keys = self.keys if cache is None else cache
        query, rows = self.project(x)[:, None].split(WIDTH, -1)
        self.write(keys, places, rows)
        hidden = torch.arange(ROOM) > places[:, None]
        scores = (query @ keys.transpose(-1, -2)).masked_fill(hidden, -1e9)
        return (scores.softmax(-1) @ keys)[:, 0]


def imported(function: nn.Module, args: tuple[Tensor, ...]) -> tuple[Any, list[str]]:
    """The module of a program, and its notes."""
    copies = tuple(a.clone() for a in args)
    with torch.no_grad():
        program = torch.export.export(copy.deepcopy(function).eval(), copies, strict=False)
    return without_notes(from_program(program))


def ran(mod: Any, args: tuple[Tensor, ...]) -> list[Any]:
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    out = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in args))
    return [out.numpy()] if hasattr(out, "numpy") else [t.numpy() for t in out]


@pytest.mark.part
@pytest.mark.parametrize("write", [index_copy, index_put, slices, copied])
@pytest.mark.parametrize("buffer", [False, True])
def test_the_new_value_is_the_last_result(write: Callable[..., None], buffer: bool) -> None:
    net = Attention(write, buffer)
    x, places, cache = torch.randn(1, 3, WIDTH), torch.arange(2, 5), torch.zeros(1, 1, ROOM, WIDTH)
    args = (x, places) if buffer else (x, places, cache)
    mod, notes = imported(net, args)
    assert [p.name for p in mod["main"].params] == ["x", "places", "b_keys" if buffer else "cache"]
    got = ran(mod, (x, places, cache))
    with torch.no_grad():
        want = net(*args)
    np.testing.assert_allclose(got[0], want, 1e-5, 1e-6)
    np.testing.assert_allclose(got[1], net.keys if buffer else cache, 1e-5, 1e-6)
    assert "which torch writes in place" in notes[-1] and len(notes) == 1 + buffer


class Several(nn.Module):
    """It writes its inputs in another order than it takes them, one through a view."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        old = b * 1
        c.view(-1)[1:3] = a.sum()
        a.add_(b)
        a.mul_(2)
        return old + a, a


def test_results_are_in_the_order_of_inputs() -> None:
    args = tuple(torch.randn(2, 3) for _ in range(3))
    mod, notes = imported(Several(), args)
    got = ran(mod, args)
    first, second = Several()(*args)
    for value, expected in zip(got, (first, second, args[0], args[2]), strict=True):
        np.testing.assert_allclose(value, expected, 1e-6)
    assert notes == ["the last 2 results are the new values of the inputs a, c, "
                     "which torch writes in place"]  # fmt: skip


class Counter(nn.Module):
    """It adds to a buffer."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((3,), start))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


def test_a_buffer_that_starts_with_other_values_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"buffer total in place.*make it an input"):
        imported(Counter(1.0), (torch.ones(3),))
    mod, _ = imported(Counter(0.0), (torch.ones(3),))
    got = ran(mod, (torch.ones(3), torch.full((3,), 4.0)))
    np.testing.assert_array_equal(got, [[10.0] * 3, [5.0] * 3])


class Chosen(nn.Module):
    """It overwrites a buffer, then reads it; some of its elements before, if asked."""

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.register_buffer("factors", torch.arange(1.0, 4.0))
        self.reads = reads

    def forward(self, x: Tensor) -> Tensor:
        before = self.factors[:1] * 2 if self.reads else 0.0
        self.factors.copy_(torch.where(x.max() > 2, torch.full((3,), 5.0), torch.full((3,), 7.0)))
        return x * self.factors + before


def test_a_buffer_that_is_never_read_is_not_an_input() -> None:
    mod, notes = imported(Chosen(False), (torch.ones(3),))
    assert not notes and [p.name for p in mod["main"].params] == ["x"]
    for x, factor in ((torch.ones(3), 7.0), (torch.full((3,), 4.0), 5.0)):
        (got,) = ran(mod, (x,))
        np.testing.assert_array_equal(got, x.numpy() * factor)
    with pytest.raises(NotImplementedError, match="buffer factors in place"):
        imported(Chosen(True), (torch.ones(3),))


def test_programs_that_write_nothing_have_no_notes() -> None:
    mod, notes = imported(nn.Linear(3, 2), (torch.ones(1, 3),))
    assert not notes and len(ran(mod, (torch.ones(1, 3),))) == 1


def test_a_session_keeps_a_static_cache() -> None:
    net = Attention(index_copy, buffer=True)
    steps = [(torch.randn(1, 1, WIDTH), torch.tensor([k])) for k in range(4)]
    mod, _ = imported(net, steps[0])
    compiled = opinfo.compile(AppendToCaches()(mod), shapes="jit", race=False)
    generation = opinfo.Session(compiled).start(*(a.numpy() for a in steps[0]))
    for k, args in enumerate(steps):
        if k:
            generation.step(*(a.numpy() for a in args))
        with torch.no_grad():
            want = net(*args)
        np.testing.assert_allclose(_leaf(generation.result), want, 1e-5, 1e-6)


def _leaf(result: Any) -> Any:
    return (result if hasattr(result, "numpy") else result[0]).numpy()
