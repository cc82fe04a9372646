"""Vectors of a thread along an axis that most of what they load does not depend on."""

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi
from tvm import tirx

from opinfo.byoc.backends.nvidia.schedules import shared_operands

from .gpu_cases import check, kernel_of, nn, op, prim_func, prove

Shape = tuple[int, ...]


def normalised(e: Any, x: Any, mean: Any, root: Any, weight: Any) -> Any:
    """What follows the totals of an instance norm with channels last."""
    return e(op.multiply(e(op.multiply(e(op.subtract(x, mean)), root)), weight))


def of_groups(e: Any, x: Any, mean: Any, root: Any, weight: Any) -> Any:
    """The same of channels in groups of ten, of which eight lanes belong to two."""
    mean, root = (e(op.reshape(e(op.broadcast_to(s, (2, 1, 4, 10))), (2, 1, 40)))
                  for s in (mean, root))  # fmt: skip
    return normalised(e, x, mean, root, weight)


def biased(e: Any, x: Any, bias: Any) -> Any:
    return e(nn.relu(e(op.add(x, bias))))


#: A function, the shapes of its operands, and how many vectors a thread has.
CASES: dict[str, tuple[Any, tuple[Shape, ...], int]] = {
    "values of channels": (normalised, ((2, 8, 24), (2, 1, 24), (2, 1, 24), (24,)), 4),
    "values of groups": (of_groups, ((2, 8, 40), (2, 1, 4, 1), (2, 1, 4, 1), (40,)), 4),
    "three positions": (normalised, ((2, 9, 24), (2, 1, 24), (2, 1, 24), (24,)), 3),
    "a prime number of positions": (normalised, ((2, 7, 24), (2, 1, 24), (2, 1, 24), (24,)), 1),
    "one operand of a channel": (biased, ((2, 8, 24), (24,)), 1),
    "values of rows": (normalised, ((2, 8, 24), (2, 8, 1), (2, 8, 1), (2, 8, 24)), 1),
}


def turns(kernel: Any) -> int:
    """The extent of the loop around the vectors of a thread, 1 without."""
    extents: list[int] = []

    def note(loop: Any) -> None:
        if loop.loop_var.name == "i":
            extents.append(int(loop.extent))

    tvm_ffi.structural_walk(kernel.body, (tirx.For, note))
    return max(extents, default=1)


@pytest.mark.parametrize("name", CASES)
def test_operands_of_several_positions_are_read_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_operands, "ENOUGH", 1)
    monkeypatch.setattr(shared_operands, "MOST", 4)
    build, shapes, several = CASES[name]
    func = prim_func(build, *shapes)
    kernel = kernel_of(func)
    assert turns(kernel) == several
    check(func, kernel)
    prove(func, kernel)


def test_a_gpu_is_filled_first() -> None:
    build, shapes, _ = CASES["values of channels"]
    assert turns(kernel_of(prim_func(build, *shapes))) == 1
