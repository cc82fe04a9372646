"""What cuDNN's fused attention does not take, and the reasons it gives."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relax

from opinfo.byoc.backend.backend import Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.nvidia.attention import attention
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from .nvidia_attention_cases import CASES, INF, Build, K, Q, V, _as_torch, _constant, causal
from .test_nvidia_attention import module

nn, op = relax.op.nn, relax.op
pytestmark = pytest.mark.usefixtures("cudnn_frontend")


def _heads(size: int) -> tuple[tuple[int, ...], ...]:
    return ((2, 3, 5, size), (2, 3, 9, size), (2, 3, 9, size))


def _row() -> Any:
    mask = np.zeros((1, 1, 5, 9), "float32")
    mask[..., 3, :] = -INF
    return mask


def _given(emit: Build, q: Any, k: Any, v: Any, mask: Any) -> Any:
    return _as_torch(emit, q, k, v, emit(op.astype(mask, "float32")))


def _two_masks(emit: Build, q: Any, k: Any, v: Any) -> Any:
    """A causal mask of finite numbers, and one that hides the keys up to each query."""
    wide = [emit(op.astype(x, "float32")) for x in (q, k, v)]
    scores = emit(op.matmul(wide[0], emit(op.permute_dims(wide[1], [0, 1, 3, 2]))))
    for mask in (causal(5, 9, -3e38), np.where(np.arange(9) < 5, -INF, 0.0).astype("float32")):
        scores = emit(op.add(scores, relax.const(mask)))
    return emit(op.astype(emit(op.matmul(emit(nn.softmax(scores)), wide[2])), "float16"))


def _infinite(emit: Build, q: Any, k: Any, v: Any, seen: Any) -> Any:
    mask = emit(op.where(seen, relax.const(0.0, "float16"), relax.const(-INF, "float16")))
    return _as_torch(emit, q, k, v, emit(op.astype(mask, "float32")))


def _scores_used(emit: Build, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    out = emit(op.matmul(emit(nn.softmax(scores)), v))
    return emit(op.add(out, emit(op.sum(scores, [3], keepdims=True))))


def _negative(emit: Build, q: Any, k: Any, v: Any) -> Any:
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    scores = emit(op.multiply(scores, relax.const(-0.5, "float16")))
    return emit(op.matmul(emit(nn.softmax(scores)), v))


def _kept_wide(emit: Build, q: Any, k: Any, v: Any) -> Any:
    """The result is used in float32."""
    wide = [emit(op.astype(x, "float32")) for x in (q, k, v)]
    scores = emit(op.matmul(wide[0], emit(op.permute_dims(wide[1], [0, 1, 3, 2]))))
    return emit(op.exp(emit(op.matmul(emit(nn.softmax(scores)), wide[2]))))


REFUSED: dict[str, tuple[Build, tuple[tuple[int, ...], ...], str, tuple[int, ...], str]] = {
    "a whole row is hidden": (_constant(_row()), (Q, K, V), "float16", (), "hides a whole row"),
    "a mask that is an input": (_given, (Q, K, V, (5, 9)), "float16", (), "may be infinite"),
    "infinite at run time": (_infinite, (Q, K, V, (5, 9)), "float16", (3,), "may be infinite"),
    "a causal mask and a constant one": (_two_masks, (Q, K, V), "float16", (), "several terms"),
    "a finite row that is hidden": (_constant(np.full((5, 9), -3e38)), (Q, K, V), "float16", (),
                                    "hides a whole row"),
    "a causal mask of -65505": (_constant(causal(5, 9, -65505.0)), (Q, K, V), "float16", (),
                                "not exact in float16"),
    "a mask of another dtype than half": (_constant(np.full((5, 9), 0.1)), (Q, K, V), "float16", (),
                               "not exact in float16"),
    "float32": (lambda e, *x: _as_torch(e, *x), (Q, K, V), "float32", (), "expected halves"),
    "a head of 12": (lambda e, *x: _as_torch(e, *x), _heads(12), "float16", (),
                     "heads in rows of a multiple of 16 bytes"),
    "a head of 136": (lambda e, *x: _as_torch(e, *x), _heads(136), "float16", (),
                      "has 136 elements, expected at most 128"),
    "one key": (lambda e, *x: _as_torch(e, *x), ((2, 3, 5, 16), (2, 3, 1, 16), (2, 3, 1, 16)),
                "float16", (), "there is one key"),
    "many windows": (_constant(causal(4, 4, -100.0)), ((256, 4, 4, 16),) * 3, "float16", (),
                     "1024 heads with a mask have 4 keys each"),
    "negative scale": (_negative, (Q, K, V), "float16", (), "scores are scaled by -0.5"),
    "queries for all heads": (
        lambda e, q, k, v: _as_torch(e, e(op.broadcast_to(q, Q)), k, v), ((2, 1, 5, 16), K, V),
        "float16", (), "heads share queries"),
    "scores used elsewhere": (_scores_used, (Q, K, V), "float16", (), ""),
    "result used in float32": (_kept_wide, (Q, K, V), "float16", (), ""),
    "operator, a mask that is an input": (
        lambda e, *x: e(nn.attention(*x)), ((2, 5, 3, 16), (2, 9, 3, 16), (2, 9, 3, 8),
                                            (2, 1, 5, 9)), "float16", (), "may be infinite"),
}  # fmt: skip


def dispatched(builds: list[Any]) -> Any:
    backend = replace(find("cudnn"), available=lambda: None, convert=lambda rs: Code(
        "", tuple(r.symbol for r in rs)))  # fmt: skip
    return dispatch(prepare(module(builds), [backend]), [backend])


@functools.cache
def refused() -> Any:
    return dispatched([(b, s, d, m) for b, s, d, m, _ in REFUSED.values()])


def test_nothing_else_is_taken() -> None:
    assert [t.pattern for t in refused().taken] == []


@pytest.mark.parametrize("name", [n for n, r in REFUSED.items() if r[4]])
def test_a_refusal_names_its_reason(name: str) -> None:
    assert any(REFUSED[name][4] in o.why for o in refused().left)


def test_many_windows_are_taken_in_heads_that_our_kernel_takes() -> None:
    build, shapes, *more, _ = REFUSED["many windows"]
    wider = tuple((*shape[:3], 32) for shape in shapes)
    assert [t.pattern for t in dispatched([(build, wider, *more)]).taken] == ["attention_float32"]


def test_without_the_frontend_nothing_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "missing", lambda: "cudnn_frontend.h is not installed")
    case = CASES["in halves"]
    backend = replace(find("cudnn"), available=lambda: None)
    done = dispatch(prepare(module([(case.build, case.shapes, case.dtype, ())]), [backend]),
                    [backend])  # fmt: skip
    assert not done.taken
    assert any("cudnn_frontend.h is not installed" in o.why for o in done.left)
