"""oneDNN on int8, next to exact arithmetic: results differ only where they lie halfway."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.byoc.compile import CompiledModule, compile_module

from .int8_cases import CASES, PART, inputs, module


@functools.cache
def compiled() -> CompiledModule:
    """For any CPU: the values are such that one without products of int8 is exact, too."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr("opinfo.byoc.backends.onednn.int8.has_int8", lambda: True)
        return compile_module(module(), ["onednn"], plan=False)


@functools.cache
def results() -> dict[str, tuple[list[Any], Any]]:
    """What each case is given, and its result."""
    given = inputs()
    found = compiled().machine()["main"](*map(tvm.runtime.tensor, given))
    out, left = {}, iter(given)
    for (name, case), y in zip(CASES.items(), found, strict=True):
        out[name] = [next(left) for _ in case.inputs], y.numpy()
    return out


@pytest.mark.parametrize("name", CASES)
def test_it_is_exact_but_for_halves(name: str) -> None:
    case = CASES[name]
    given, found = results()[name]
    exact = case.exact(*(q.real(x) for (_, q), x in zip(case.inputs, given, strict=True)))
    assert found.shape == exact.shape
    if case.out is None:
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)
        return
    info, scale = np.iinfo(case.out.dtype), float(np.asarray(case.out.scale, "float32"))
    steps = exact / scale + case.out.zero
    apart = np.abs(found - np.clip(steps, info.min, info.max))
    assert apart.max() <= 0.5 + 1e-3
    assert len(np.unique(found)) > 10 // PART**2


def test_every_case_is_taken_whole() -> None:
    assert [(o.op, o.why) for o in compiled().dispatched.left] == []
    taken = sorted(
        " ".join(o.rpartition(".")[2] for o in t.ops) for t in compiled().dispatched.taken
    )
    alone = ["dequantize", *["dequantize quantize"] * 2]  # of the pool, before concat
    assert taken == sorted([*(c.ops for c in CASES.values()), *alone])
