"""Which order in memory constant weights of cuBLASLt products get."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from .cublaslt_harness import POWERS, RUNGS


class Weights:
    """Constant weights of one region, and where they are on the device."""

    def __init__(self, loaded: Any, stored_turned: int = 0) -> None:
        rng = np.random.default_rng(2)
        self.loaded, self.stored_turned = loaded, stored_turned
        self.numbers = rng.standard_normal((3, 4)).astype("float32")
        self.memory = (self.numbers.T if stored_turned else self.numbers).copy()

    @property
    def turned(self) -> bool:
        """Whether they have another order than at first."""
        given = self.numbers.T if self.stored_turned else self.numbers
        if self.memory.tobytes() == given.tobytes():
            return False
        assert self.memory.tobytes() == given.T.tobytes()
        return True

    def run(self, rows: int, waits: int, alignment: int = 256, captured: int = 0) -> int:
        """Run a product with them, and compare the result."""
        a = np.random.default_rng(rows).standard_normal((rows, 3)).astype("float32")
        d = np.full((rows, 4), np.nan, "float32")
        pointers = [x.ctypes.data_as(ctypes.c_void_p) for x in (a, self.memory, d)]
        named = int(self.loaded.run(ctypes.c_int64(rows), waits, 1, alignment, captured, 0, 1,
                                    self.stored_turned, *pointers))  # fmt: skip
        np.testing.assert_allclose(d, a @ self.numbers, atol=1e-5)
        return named


@pytest.mark.parametrize("stored_turned", [0, 1])
@pytest.mark.parametrize("waits", [0, 1])
@pytest.mark.parametrize("time", [0.5, 2.0])
def test_constant_weights_get_the_faster_order(
    time: float, waits: int, stored_turned: int, process: Any
) -> None:
    """``time``: of weights whose columns are stored one after another."""
    loaded = process()
    loaded.turned(ctypes.c_float(time))
    weights = Weights(loaded, stored_turned)
    assert weights.run(5, waits) == (RUNGS + POWERS if waits else 2)
    assert weights.turned == ((time < 1) != bool(stored_turned))
    other = Weights(loaded, stored_turned)  # of another region with this product
    assert other.run(5, waits) == 0 and other.turned == weights.turned
    if waits:  # the ladder is that of the order which they got
        assert weights.run(6, waits) == other.run(20, waits) == 0
    again = process()  # which reads what was kept
    loaded.turned(ctypes.c_float(1))
    kept = Weights(again, stored_turned)
    assert kept.run(5, waits) == 0 and kept.turned == weights.turned


def test_the_order_of_weights_is_that_which_loses_less_time(process: Any) -> None:
    """A turned order takes half the time for few rows, where a product takes hardly any."""
    loaded = process()
    loaded.grows(1)
    loaded.turned(ctypes.c_float(1.5))
    weights = Weights(loaded)
    weights.run(5, 1)
    assert not weights.turned
    loaded.turned(ctypes.c_float(0.95))
    other = Weights(process())
    other.run(5, 1)  # which is kept
    assert not other.turned


def test_weights_that_have_kernels_keep_their_order(process: Any) -> None:
    loaded = process()
    loaded.turned(ctypes.c_float(2))
    weights = Weights(loaded)
    weights.run(5, 0)
    loaded.turned(ctypes.c_float(0.5))
    assert weights.run(5, 0, alignment=16) == 1 and not weights.turned
    assert weights.run(6, 1) == RUNGS and not weights.turned
    turned = Weights(loaded)
    assert turned.run(7, 0) == 2 and turned.turned
    loaded.turned(ctypes.c_float(2))
    assert turned.run(7, 0, alignment=16) == 1 and turned.turned
    captured = Weights(loaded)
    loaded.turned(ctypes.c_float(0.5))
    assert captured.run(8, 0, captured=7) == 1 and not captured.turned
    assert captured.run(8, 0) == 1 and not captured.turned
