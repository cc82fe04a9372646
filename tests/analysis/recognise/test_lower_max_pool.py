"""Maximum pools begin and pad with minus infinity, in every layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch.nn import functional as F
from tvm import relax, tirx

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.proposal.legalise import legalise, legalise_module
from opinfo.analysis.proposal.lowering.lower_max_pool import TVM_RULES, reads_in_each_window
from opinfo.analysis.proposal.tvm_rules import SOME_FINITE
from opinfo.testing.unoptimised import unoptimised

from ..foreign.execute import difference
from ..foreign.unseen3.programs import written

N, H = (tirx.Var(name, "int64") for name in "nh")


def _module(rank: int, shape: Any, dtype: str, attrs: dict[str, Any]) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        out = builder.emit(getattr(relax.op.nn, f"max_pool{rank}d")(x, **attrs))
        builder.emit_func_output(out)
    return legalise_module(builder.get())


def _results(mod: tvm.IRModule, *arrays: Any) -> list[Any]:
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    return [machine["main"](tvm.runtime.tensor(a)).numpy() for a in arrays]


def _pooled(x: Any, rank: int, attrs: dict[str, Any]) -> Any:
    """The definition on NC* data: the maximum of what a window reads, of nothing -inf."""
    sizes, strides, gaps = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    pads, ceil = attrs["padding"], attrs["ceil_mode"]
    spatial = x.shape[2:]
    reach = [(k - 1) * d + 1 for k, d in zip(sizes, gaps, strict=True)]
    extra = [s - 1 if ceil else 0 for s in strides]
    counts = [(n + pads[k] + pads[rank + k] - reach[k] + extra[k]) // strides[k] + 1
              for k, n in enumerate(spatial)]  # fmt: skip
    if ceil:  # no window begins beyond the data and what is before it
        counts = [min(count, (n + pads[k] - 1) // strides[k] + 1)
                  for k, (n, count) in enumerate(zip(spatial, counts, strict=True))]  # fmt: skip
    out = np.full((*x.shape[:2], *counts), -np.inf, x.dtype)
    for at in itertools.product(*map(range, counts)):
        for step in itertools.product(*map(range, sizes)):
            place = [at[k] * strides[k] + step[k] * gaps[k] - pads[k] for k in range(rank)]
            if all(0 <= p < n for p, n in zip(place, spatial, strict=True)):
                here: Any = (slice(None), slice(None), *at)
                there: Any = (slice(None), slice(None), *place)
                out[here] = np.maximum(out[here], x[there])
    return out


def _data(*shape: int, dtype: str = "float32") -> Any:
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x[:, 0] = -np.inf  # all windows of a channel
    x[:, 1, :3] = -np.inf
    return x


@pytest.mark.parametrize(
    ("padding", "dilation", "ceil_mode"),
    [((1, 0, 1, 2), (1, 1), False), ((0, 0, 0, 0), (2, 1), False), ((1, 1, 1, 1), (1, 2), True)],
)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c"])
def test_windows_of_infinities(layout: str, padding: Any, dilation: Any, ceil_mode: bool) -> None:
    attrs = {"pool_size": (3, 2), "strides": (2, 3), "padding": padding, "dilation": dilation,
             "ceil_mode": ceil_mode}  # fmt: skip
    x = _data(2, 4, 9, 8)
    packed = {"NCHW": x, "NHWC": x.transpose(0, 2, 3, 1),
              "NCHW2c": x.reshape(2, 2, 2, 9, 8).transpose(0, 1, 3, 4, 2)}[layout]  # fmt: skip
    mod = _module(2, packed.shape, "float32", {**attrs, "layout": layout})
    (got,) = _results(mod, np.ascontiguousarray(packed))
    if layout == "NHWC":
        got = got.transpose(0, 3, 1, 2)
    elif layout == "NCHW2c":
        got = got.transpose(0, 1, 4, 2, 3).reshape(2, 4, *got.shape[2:4])
    expected = _pooled(x, 2, attrs)
    assert np.isneginf(expected).any()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_ranks(rank: int) -> None:
    attrs = {"pool_size": (2,) * rank, "strides": (1,) * rank, "padding": (1, 0) * rank,
             "dilation": (1,) * rank, "ceil_mode": False}  # fmt: skip
    x = _data(1, 3, *(5, 4, 6)[:rank], dtype="float16")
    layout = "NC" + "DHW"[3 - rank :]
    (got,) = _results(_module(rank, x.shape, "float16", {**attrs, "layout": layout}), x)
    np.testing.assert_array_equal(got, _pooled(x, rank, attrs))


def test_symbolic_sizes() -> None:
    attrs = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
    mod = _module(2, (N, 2, H, 7), "float32", attrs)
    arrays = [_data(n, 2, h, 7) for n, h in ((1, 5), (3, 8))]
    for x, got in zip(arrays, _results(mod, *arrays), strict=True):
        expected = F.max_pool2d(torch.from_numpy(x), 3, 2, 1).numpy()
        np.testing.assert_array_equal(got, expected)


def test_integers_are_lowered_by_tvm() -> None:
    """They have a lowest number."""
    attrs = {"pool_size": (2, 2), "strides": (2, 2), "padding": (1, 1, 0, 0)}
    mod = _module(2, (1, 1, 3, 3), "int8", attrs)
    x = np.full((1, 1, 3, 3), -128, "int8")
    np.testing.assert_array_equal(_results(mod, x)[0], np.full((1, 1, 2, 2), -128))
    assert "T.int8(-128)" in mod["max_pool2d"].script()


@pytest.mark.parametrize("shape", [(1, 2, 9, 9), (N, 2, H, 9)])
@pytest.mark.parametrize("by_tvm", [False, True])
def test_the_pool_is_recovered_exactly(by_tvm: bool, shape: Any) -> None:
    """From TVM's rule, too: other processes lower with it."""
    attrs = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
    func = _module(2, shape, "float32", attrs)["max_pool2d"]
    if by_tvm:
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType(shape, "float32"))
        call = builder.normalize(relax.op.nn.max_pool2d(x, **attrs))
        found = legalise(call, [x], TVM_RULES["relax.nn.max_pool2d"])
        assert found is not None
        func = found.func
    assert ('float32("-inf")' in func.script()) is not by_tvm
    info = op_info(func)
    assert isinstance(info, OpInfo)
    assert (info.name, info.certificate.kind) == ("relax.nn.max_pool2d", "rebuilt")
    assert info.attrs["padding"] == (1, 1, 1, 1)
    assert (SOME_FINITE in info.certificate.assumptions) is by_tvm


def test_an_answer_from_the_lowest_number_differs_for_infinities_only() -> None:
    """TVM's PrimFunc has -3.4e38 of a window of -inf, and the operator -inf: it is assumed away."""
    func = written("x 1,2,6; out 1,2,3", POOL.format(start=LOWEST, windows=3))
    info = op_info(func)
    assert isinstance(info, OpInfo)
    assert SOME_FINITE in info.certificate.assumptions
    x = _data(1, 2, 6)
    out = tvm.runtime.tensor(np.zeros((1, 2, 3), "float32"))
    tvm.compile(func.with_attr("global_symbol", "main"), "llvm")["main"](tvm.runtime.tensor(x), out)
    (answer,) = _results(_module(1, x.shape, "float32", dict(info.attrs)), x)
    same = out.numpy() == answer
    np.testing.assert_array_equal(same, ~np.isneginf(answer))
    assert 0 < same.sum() < same.size


POOL = """
for c, t in T.grid(2, {windows}):
    out[0, c, t] = {start}
    for k in range(3):
        out[0, c, t] = T.max(out[0, c, t], T.if_then_else(
            1 <= t * 2 + k and t * 2 + k < 7, x[0, c, t * 2 + k - 1], {start}))
"""
LOWEST = "T.float32(-3.4028234663852886e+38)"


@pytest.mark.parametrize(
    ("start", "windows", "name"),
    [('T.float32("-inf")', 3, "relax.nn.max_pool1d"), (LOWEST, 3, "relax.nn.max_pool1d"),
     ('T.float32("-inf")', 5, "relax.nn.max_pool1d"), (LOWEST, 5, ""),
     ("T.float32(0)", 3, ""), ("T.float32(0)", 5, "")],
)  # fmt: skip
def test_a_window_of_padding_alone_shows_the_start(start: str, windows: int, name: str) -> None:
    """Three windows read data; the last of five is of padding."""
    func = written(f"x 1,2,6; out 1,2,{windows}", POOL.format(start=start, windows=windows))
    found = op_info(func)
    assert (found.name if isinstance(found, OpInfo) else "") == name
    if isinstance(found, OpInfo):
        assert not difference(func, found.name, found.attrs, found.operands)


@pytest.mark.parametrize(
    ("extent", "size", "stride", "dilation", "pads", "ceil"),
    list(itertools.product((1, 2, 5), (1, 2, 3), (1, 2, 3), (1, 2, 3),
                           ((0, 0), (1, 0), (0, 2), (3, 1)), (False, True))),
)  # fmt: skip
def test_windows_of_padding_alone_are_found(
    extent: int, size: int, stride: int, dilation: int, pads: tuple[int, int], ceil: bool
) -> None:
    """Against the definition; without sizes, no is always right."""
    attrs = {"pool_size": (size,), "strides": (stride,), "dilation": (dilation,),
             "padding": pads, "ceil_mode": ceil, "layout": "NCW"}  # fmt: skip
    ends = extent + pads[1] + (stride - 1 if ceil else 0)
    starts = range(-pads[0], ends - (size - 1) * dilation, stride)
    inside = set(range(extent))
    expected = all(inside & set(range(s, s + size * dilation, dilation)) for s in starts)
    assert reads_in_each_window(attrs, (1, 1, extent)) == expected
    assert expected or not reads_in_each_window(attrs, (1, 1, None))
