"""Non-maximum suppression is recognised from a whole PrimFunc, by what its attributes change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import op_info
from opinfo.analysis.results.op_info import OpInfo, Refusal
from opinfo.testing.unoptimised import unoptimised

from ...common.prim_funcs import lowered

NAME = "relax.vision.non_max_suppression"
BOXES = 7
CALLS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "limits": {"max_output_size": 3, "top_k": 5, "iou_threshold": 0.25},
    "places": {"coord_start": 0, "score_index": 4, "id_index": 5},
    "all classes": {"id_index": -1},
    "boxes": {"return_indices": False, "invalid_to_bottom": True},
    "boxes in place": {"return_indices": False},
    "soft": {"soft_nms_sigma": 0.5, "score_threshold": 0.125},
}


def _prim_func(attrs: dict[str, Any]) -> Any:
    types = [((1, BOXES, 6), "float32"), ((1,), "int32"), ((1, BOXES), "int32")]
    return lowered(lambda *x: relax.op.vision.non_max_suppression(*x, **attrs), *types)


@pytest.mark.parametrize("name", CALLS)
def test_the_attributes_are_read_from_the_body(name: str) -> None:
    attrs = CALLS[name]
    info = op_info(_prim_func(attrs))
    assert isinstance(info, OpInfo), info
    assert (info.name, info.operands, info.certificate.kind) == (NAME, (0, 1, 2), "extern")
    assert any("argsort" in a for a in info.certificate.assumptions)
    assert {k: info.attrs[k] for k in attrs} == attrs


def test_suppression_of_all_classes_by_force_has_no_class() -> None:
    info = op_info(_prim_func({"force_suppress": True, "id_index": 0}))
    assert isinstance(info, OpInfo)
    assert (info.attrs["id_index"], info.attrs["force_suppress"]) == (-1, False)


#: Each node of the first kind becomes one of the second kind, one at a time.
CHANGES = {tirx.GE: tirx.GT, tirx.Min: tirx.Max, tirx.Sub: tirx.Add, tirx.Div: tirx.Mul}


@pytest.mark.parametrize("old", CHANGES)
def test_a_changed_suppression_is_refused(old: Any) -> None:
    func = _prim_func({"max_output_size": 3})
    assert isinstance(op_info(func), OpInfo)
    count = 0
    while (mutant := _changed(func, old, count)) is not None:
        assert isinstance(op_info(mutant), Refusal), f"{old.__name__} {count}"
        count += 1
    assert count


def _changed(func: Any, old: Any, place: int) -> Any:
    """The PrimFunc with one node changed; None if it has no such node."""
    left = [place]

    def node(expr: Any, mutate: Any) -> Any:
        left[0] -= 1
        if left[0] == -1:
            return CHANGES[old](expr.a, expr.b)
        return mutate.default(expr) if hasattr(mutate, "default") else expr

    body = tvm_ffi.structural_mutate(func.body, [(old, node)])
    return func.with_body(body) if left[0] < 0 else None


def test_the_recovered_attributes_mean_what_a_greedy_suppression_does() -> None:
    """The kept boxes against NumPy: classes apart, overlaps of at least the threshold dropped."""
    info = op_info(_prim_func(CALLS["limits"]))
    assert isinstance(info, OpInfo)
    rng = np.random.default_rng(3)
    corner = rng.uniform(0, 2, (BOXES, 2))
    data = np.concatenate([rng.integers(0, 2, (BOXES, 1)), rng.permutation(BOXES)[:, None] + 1.0,
                           corner, corner + 1], 1).astype("float32")  # fmt: skip
    func = _prim_func(dict(info.attrs)).with_attr("global_symbol", "nms")
    kept, count = (tvm.runtime.tensor(np.zeros(s, "int32")) for s in ((1, BOXES), (1, 1)))
    unoptimised(tvm.IRModule({"nms": func}))["nms"](
        *map(tvm.runtime.tensor, (data[None], np.array([BOXES], "int32"),
                                  np.arange(BOXES, dtype="int32")[None])), kept, count)  # fmt: skip
    expected = _greedy(data, 3, 5, 0.25)
    assert kept.numpy()[0, : len(expected)].tolist() == expected
    assert count.numpy().tolist() == [[len(expected)]] and len(expected) < BOXES


def _greedy(data: Any, most: int, top: int, threshold: float) -> list[int]:
    kept: list[int] = []
    for k in np.argsort(-data[:, 1])[:top]:
        if len(kept) < most and all(_overlap(data[j], data[k]) < threshold for j in kept):
            kept.append(int(k))
    return kept


def _overlap(a: Any, b: Any) -> float:
    if a[0] != b[0]:
        return 0.0
    sides = np.clip(np.minimum(a[4:], b[4:]) - np.maximum(a[2:4], b[2:4]), 0, None)
    both = float(np.prod(sides))
    return both / (2.0 - both)
