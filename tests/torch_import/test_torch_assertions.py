"""Assertions of torch programs on data, and indices that torch refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tvm import ir, relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.checks.notes import without_notes
from opinfo.frontend.formats.from_torch import from_program

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")


class Net(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def _calls(mod: Any) -> list[Any]:
    found: list[Any] = []
    relax.analysis.post_order_visit(mod["main"], lambda e: found.append(e) if isinstance(
        e, relax.Call) and isinstance(e.op, ir.Op) else None)  # fmt: skip
    return found


def imported(function: Callable[..., Any], *inputs: Any) -> Any:
    return without_notes(from_program(torch.export.export(Net(function), inputs)))


def test_an_assertion_on_a_number_from_a_tensor_is_checked() -> None:
    def scaled(x: Any, k: Any) -> Any:
        n = k.item()
        torch._check(n >= 0)
        torch._check(n < x.shape[0])
        return x * n

    x = torch.arange(6.0)
    mod, _ = imported(scaled, x, torch.tensor(3))
    compiled = opinfo.compile(mod, [])
    for k in (0, 5):
        (got,) = compiled.run(x.numpy(), np.array(k))
        np.testing.assert_array_equal(got, scaled(x, torch.tensor(k)).numpy())
    for k in (-1, 6):
        with pytest.raises(ValueError, match="the model asserts u0"):
            compiled.run(x.numpy(), np.array(k))


def test_an_assertion_that_torch_drops_is_noted() -> None:
    def doubled(x: Any) -> Any:
        torch._assert_async(x.sum() > 0)
        return x * 2

    _, notes = imported(doubled, torch.ones(3))
    assert [note[:28] for note in notes] == ["1 of the assertions on tenso"]


def test_indices_below_zero_count_from_the_end_and_others_are_refused() -> None:
    x = torch.arange(27.0).reshape(3, 3, 3)
    index = torch.tensor([0, -3, 2])
    mod, _ = imported(lambda x, i: (x[i], torch.take(x, i)), x, index)
    compiled = opinfo.compile(mod, [])
    rows, taken = compiled.run(x.numpy(), index.numpy())
    np.testing.assert_array_equal(rows, x[index].numpy())
    np.testing.assert_array_equal(taken, torch.take(x, index).numpy())
    for k in (3, -4):
        with pytest.raises(ValueError, match=f"has the element {k}; as an index, it must be -3 to"):
            compiled.run(x.numpy(), np.array([0, k, 1]))


def test_an_index_outside_of_its_axis_is_refused_where_the_flat_position_is_inside() -> None:
    x = torch.arange(20.0).reshape(5, 4)
    i, j = torch.tensor([0, 3, -1]), torch.tensor([3, -4, 1])

    def read(x: Any, i: Any, j: Any) -> Any:
        return x[i, j], x[None, i, None, j]

    def added(x: Any, i: Any, j: Any) -> Any:
        return torch.ops.aten.index_put(x, (i, j), torch.ones(3), True)

    for function in (read, added):
        mod, _ = imported(function, x, i, j)
        compiled = opinfo.compile(mod, [])
        expected = function(x, i, j)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        for got, known in zip(compiled.run(x.numpy(), i.numpy(), j.numpy()), wanted, strict=True):
            np.testing.assert_array_equal(got, known.numpy())
        for wrong in ([4, 0, 0], [0, -5, 0]):
            with pytest.raises(ValueError, match="outside"):
                compiled.run(x.numpy(), i.numpy(), np.array(wrong))


def test_counted_positions_of_their_own_axes_need_no_check() -> None:
    def picked(x: Any) -> Any:
        rows, columns = (torch.arange(n) for n in x.shape)
        return x[rows[:, None], columns[None, :]]

    mod, _ = imported(picked, torch.rand(5, 4))
    assert "where" not in {c.op.name.split(".")[-1] for c in _calls(mod)}


def test_fewer_elements_than_the_data_has_are_scattered_in_place() -> None:
    x, source = torch.arange(27.0).reshape(3, 3, 3), -torch.arange(27.0).reshape(3, 3, 3)
    index = torch.tensor([2, 0]).reshape(2, 1, 1).expand(2, 2, 2).contiguous()

    def scattered(x: Any, i: Any, s: Any) -> Any:
        return [*(torch.scatter(x, dim, i, s) for dim in range(3)), torch.scatter(x, 0, i, 5.0),
                torch.scatter_add(x, 2, i, s)]  # fmt: skip

    mod, _ = imported(scattered, x, index, source)
    got = opinfo.compile(mod, []).run(*(t.numpy() for t in (x, index, source)))
    for a, b in zip(got, scattered(x, index, source), strict=True):
        if not isinstance(a, np.ndarray):
            a = np.asarray(a)
        np.testing.assert_array_equal(a, b.numpy())


def test_an_assertion_on_a_truth_value_from_a_tensor_is_checked() -> None:
    """It was dropped without a note; D-FINE asserts a number of it, 1 or 0."""

    def positive(x: Any) -> Any:
        holds = (x >= 0).all().item()
        torch._check(holds)
        torch._check(torch.sym_ite(holds, 1, 0) >= 1)
        return x + 1

    x = torch.arange(6.0)
    mod, _ = imported(positive, x)
    compiled = opinfo.compile(mod, [])
    np.testing.assert_array_equal(compiled.run(x.numpy())[0], x.numpy() + 1)
    with pytest.raises(Exception, match="the model asserts"):
        compiled.run(x.numpy() - 1)
