"""oneDNN: attention leaves out keys that a constant mask hides, and nothing changes by that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn import ATTENTION, ONEDNN
from opinfo.byoc.compile import compile_module

from ...models.weights import Array
from .attention_cases import INF, Attention

ONLY = replace(ONEDNN, patterns=(ATTENTION,))


@dataclass(frozen=True)
class Masked(Attention):
    """Attention with another mask: ``kind`` names it."""

    kind: str = ""

    @property
    def mask(self) -> Array:
        mask = np.array(super().mask[None, None])
        match self.kind:
            case "a row of hidden keys":
                mask[0, 0, 30] = self.hidden
            case "one for each head":
                earlier = np.where(mask == 0, self.hidden, 0)
                earlier[..., 0] = 0
                mask = np.concatenate([mask, earlier.astype("float32")], 1)
            case "one row for all":
                mask = mask[:, :, 40:41]
        return mask


SQUARE = Masked(rows=70, keys=70, causal=True)
CASES = {
    "-inf": SQUARE,
    "the least float": replace(SQUARE, hidden=-3e38),
    "-1e9": replace(SQUARE, hidden=-1e9),
    "the least half": replace(SQUARE, hidden=-65504.0),
    "not low": replace(SQUARE, hidden=-50.0),
    "more keys than rows, odd sizes": Masked(rows=51, keys=99, depth=13, value=7, causal=True),
    "few rows": Masked(rows=3, keys=60, causal=True),
    "a row of hidden keys": replace(SQUARE, hidden=-1e9, kind="a row of hidden keys"),
    "one for each head": replace(SQUARE, hidden=-1e9, kind="one for each head"),
    "one row for all": replace(SQUARE, kind="one row for all"),
    "large scores": replace(SQUARE, heads=1, hidden=-1e9, scaled=False),
    "scores that are not finite": replace(SQUARE, heads=1, scaled=False),
    "values that are not finite": replace(SQUARE, heads=1),
}


def _inputs(name: str) -> list[Array]:
    q, k, v = CASES[name].inputs()
    match name:
        case "large scores":  # row 2 and key 60
            q[0, 2], k[0, 60] = 1e5, 1e5
        case "scores that are not finite":
            k[0, 60, 3] = INF
        case "values that are not finite":
            v[0, 60, 3] = INF
    return [q, k, v]


@pytest.fixture(scope="module")
def results() -> Mapping[str, tuple[Array, Array]]:
    """By case, the result with a mask that is a constant, and with one that is a parameter."""
    masks = {n: replace(c, causal=False, terms=(c.mask.shape,)) for n, c in CASES.items()}
    shapes = [s for n in CASES for s in masks[n].shapes]
    given = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder, at, out = relax.BlockBuilder(), iter(given), list[Any]()
    with builder.function("main", given):
        with builder.dataflow():
            for name, case in CASES.items():
                q, k, v, mask = (next(at) for _ in range(4))
                out.append(case.build(builder.emit, None, q, k, v))
                out.append(masks[name].build(builder.emit, None, q, k, v, mask))
            whole = builder.emit_output(relax.Tuple(out))
        builder.emit_func_output(whole)
    compiled = compile_module(builder.get(), [ONLY], plan=False)
    assert len(compiled.dispatched.taken) == len(out) and not compiled.dispatched.left
    arrays = [x for n, c in CASES.items() for x in (*_inputs(n), c.mask)]
    read = [r.numpy() for r in compiled.machine()["main"](*map(tvm.runtime.tensor, arrays))]
    return dict(zip(CASES, zip(read[::2], read[1::2], strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_constant_mask_gives_the_numbers_of_one_that_is_data(
    results: Mapping[str, tuple[Array, Array]], name: str
) -> None:
    constant, data = results[name]
    assert np.array_equal(constant, data, equal_nan=True)
    # In float32, scores that differ by little are the same far from 0.
    dtype = "float32" if name == "a row of hidden keys" else "float64"
    expected = CASES[name].reference(*_inputs(name), dtype=dtype)
    assert np.array_equal(np.isnan(constant), np.isnan(expected))
    if name != "large scores":  # their roundings are large, too
        assert np.nanmax(abs(constant - expected)) < 1e-5


def test_a_hidden_key_with_a_large_score_is_seen(
    results: Mapping[str, tuple[Array, Array]],
) -> None:
    *_, v = _inputs("large scores")
    assert np.allclose(results["large scores"][0][0, 2], v[0, 60])


def test_what_is_not_finite_reaches_the_rows_that_do_not_see_it(
    results: Mapping[str, tuple[Array, Array]],
) -> None:
    values, scores = (
        np.isnan(results[f"{kind} that are not finite"][0][0, :60]) for kind in ("values", "scores")
    )
    assert values[:, 3].all() and not values[:, 4].any()
    queries, *_ = _inputs("scores that are not finite")
    infinite = queries[0, :60, 3] > 0  # else -inf, which is the term itself
    assert np.array_equal(scores, np.broadcast_to(infinite[:, None], scores.shape))
