"""Ranges of undetermined attributes: inside, the compute is the same; one beyond, it is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from opinfo.analysis import OpInfo, Refusal, Undetermined, op_info
from opinfo.analysis.certify.certify import certify
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.proposal.proposal import Proposal
from opinfo.analysis.recognise import Matches
from opinfo.testing.calls import lower
from opinfo.testing.strip import strip

NN = "relax.nn."
WINDOW = {"pool_size": (3, 3), "strides": (2, 2)}
X8, W3 = "float32[1, 4, 8, 8]", "float32[4, 4, 3, 3]"
SLICE = "relax.strided_slice"

AVG_GRAD, RESIZE = "relax.grad.avg_pool2d_backward", "relax.image.resize2d"
RESIZED = {
    "rounding_method in {, round, floor, ceil, round_prefer_floor, round_prefer_ceil}",
    "cubic_alpha is any number", "cubic_exclude in {0, 1}", "extrapolation_value is any number",
}  # fmt: skip

#: A call, and what its compute leaves open.
CASES: list[tuple[Matches, set[str]]] = [
    (Matches(NN + "conv2d", (X8, W3)), set()),
    (Matches(NN + "conv2d", (X8, W3), {"strides": (3, 2), "padding": (1, 1, 1, 1)}),
     {"padding[2] in 0..2", "padding[3] in 0..1"}),
    (Matches(NN + "conv2d", (X8, "float32[4, 4, 8, 1]")),
     {"strides[0] >= 1", "dilation[1] >= 1"}),
    (Matches(NN + "conv2d", ("float32[1, 4, 5, 8]", W3), {"strides": (5, 1), "padding": (1, 0)}),
     {"strides[0] >= 5", "padding[2] in 0..1"}),
    (Matches(NN + "conv1d", ("float32[1, 4, 9]", "float32[4, 4, 3]"), {"strides": (4,)}),
     {"padding[1] in 0..1"}),
    (Matches(NN + "conv2d", ("float32[n, 4, 8, 9]", W3), {"strides": (2, 2)}),
     {"padding[3] in 0..1"}),
    (Matches(NN + "conv2d", ("float32[1, 4, h, w]", W3), {"strides": (2, 2)}), set()),
    (Matches(NN + "max_pool2d", ("float32[1, 2, 9, 8]",), {**WINDOW, "padding": (1, 1, 1, 1)}),
     {"padding[2] in 1..2", "padding[3] in 0..1", "count_include_pad in {False, True}"}),
    (Matches(NN + "avg_pool2d", ("float32[1, 2, 9, 9]",), WINDOW),
     {"padding[2] in 0..1", "padding[3] in 0..1", "ceil_mode in {False, True}",
      "count_include_pad in {False, True}"}),
    (Matches(SLICE, ("float32[20]",), {"axes": [0], "begin": [1], "end": [12], "strides": [4]}),
     {"end[0] in 10..13"}),
    (Matches(SLICE, ("float32[20]",), {"axes": [0], "begin": [1], "end": [20], "strides": [4]}),
     {"end[0] >= 18"}),
    (Matches(SLICE, ("float32[20]",), {"axes": [0], "begin": [12], "end": [1], "strides": [-4]}),
     {"end[0] in 0..3"}),
    (Matches(SLICE, ("float32[20]",), {"axes": [0], "begin": [3], "end": [4], "strides": [1]}),
     {"strides[0] >= 1"}),
    (Matches("relax.sum", ("float32[1, 4, 1, 3]",), {"axis": [1], "keepdims": True}),
     {"axis in {[1], [0, 1], [1, 2], [0, 1, 2]}"}),
    (Matches("relax.permute_dims", ("float32[3, 1, 4, 1]",), {"axes": [2, 1, 0, 3]}),
     {"axes in {[2, 1, 0, 3], [2, 3, 0, 1]}"}),
    (Matches(NN + "dropout", ("float32[4]",)), {"rate is any number"}),
    (Matches(NN + "layer_norm", ("float32[2, 6]", "float32[6]", "float32[6]"), {"axes": [1]}),
     {"center in {False, True}", "scale in {False, True}"}),
    (Matches(NN + "attention", ("float32[2, 6, 3, 8]",) * 3, {"causal_mask": "TopLeft"}),
     {"causal_mask in {TopLeft, BottomRight}"}),
    (Matches(AVG_GRAD, ("float32[1, 2, 3, 3]", "float32[1, 2, 9, 9]"),
             {"pool_size": (2, 2), "strides": (3, 3)}),
     {"padding[2] >= 0", "padding[3] >= 0", "ceil_mode in {False, True}",
      "count_include_pad in {False, True}"}),
    (Matches(AVG_GRAD, ("float32[1, 2, 3, 4]", "float32[1, 2, 7, 9]"),
             {"pool_size": (2, 2), "strides": (2, 2)}),
     {"count_include_pad in {False, True}"}),
    (Matches("relax.quantize", ("float32[2, 4]", "float32[1]", "int8[]"), {"axis": 0}),
     {"axis in {-1, 0, 1}"}),
    (Matches("relax.argmax", ("float32[3, 1, 1]",), {"axis": 1}), {"axis in {1, 2}"}),
    (Matches(RESIZE, ("float32[1, 3, 5, 7]",), {"size": (9, 1), "method": "linear"}), RESIZED),
    (Matches(NN + "pad", ("float32[6]",), {"pad_width": [1, 2], "pad_mode": "reflect"}),
     {"pad_value is any number"}),
]  # fmt: skip


def _label(case: Any) -> str:
    return f"{case.op}-{case.operands}-{case.attrs}" if isinstance(case, Matches) else ""


@pytest.mark.parametrize(("case", "expected"), CASES, ids=_label)
def test_undetermined_values_compute_the_same(case: Matches, expected: set[str]) -> None:
    func = strip(lower(case))
    info = op_info(func)
    assert isinstance(info, OpInfo), info
    assert {str(u).partition(" (")[0] for u in info.undetermined} == expected
    for u in info.undetermined:
        for value in inside(u):
            assert not isinstance(again(func, info, u, value), Refusal), (str(u), value)
        for value in outside(u):
            assert isinstance(again(func, info, u, value), Refusal), (str(u), value)


def inside(u: Undetermined) -> Iterator[Any]:
    """The ends of a range, and something within."""
    if u.values:
        yield from u.values
        return
    ends: list[Any] = [u.low, u.high]
    wide = 0.5 if ends == [None, None] else 7
    low = ends[0] if ends[0] is not None else 0.25 if ends[1] is None else ends[1] - wide
    high = ends[1] if ends[1] is not None else low + wide
    yield from (low, high)


#: The least that these attributes can be at all: padding of -1 crops.
LEAST = {"strides": 1, "dilation": 1, "padding": 0}


def outside(u: Undetermined) -> Iterator[Any]:
    """One beyond each end."""
    if not u.values and u.low is not None and u.low != LEAST.get(u.attribute):
        yield u.low - 1
    if not u.values and u.high is not None:
        yield u.high + 1


def again(func: Any, info: OpInfo, u: Undetermined, value: Any) -> Any:
    """The certificate of the answer with another value."""
    whole = value
    if u.position is not None:
        given = list(info.attrs[u.attribute])
        given[u.position] = value
        whole = type(info.attrs[u.attribute])(given)
    proposal = Proposal(info.name, info.operands, {**info.attrs, u.attribute: whole})
    return certify(proposal, lift(func), func)


def test_text_and_range() -> None:
    u = Undetermined("strides", "the output extent is 1", 0, low=2)
    assert str(u) == "strides[0] >= 2 (the output extent is 1)"
    assert [u.allows(k) for k in (1, 2, 9)] == [False, True, True]
    flag = Undetermined("center", "unseen", values=(False, True))
    assert flag.allows(True) and not flag.allows(1)
