"""A size of its own may be taken for a function of others, which the certificate says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.script import from_source

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.composites import chunked_logsumexp, softmax_from_chunks

from ...recognise.test_composites import module, run

#: Chunks of 8, whose number is a size of its own.
CHUNKS = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle, r: T.handle, o: T.handle):
    b, v, c = T.int64(), T.int64(), T.int64()
    x = T.match_buffer(p, (b, v), "float32")
    t = T.match_buffer(q, (b,), "float32")
    s = T.match_buffer(r, (b, c), "float32")
    m = T.match_buffer(o, (b, c), "float32")
    pad = T.alloc_buffer((b, c, 8), "float32")
    total = T.alloc_buffer((b, c), "float32")
    top = T.alloc_buffer((b, c), "float32")
    for i, j, k in T.grid(b, c, 8):
        pad[i, j, k] = T.if_then_else({inside}, T.if_then_else(T.float32(0.5) < t[i],
            x[i, j * 8 + k] / t[i], x[i, j * 8 + k]), T.float32(-3.4028234663852886e38))
    for i, j in T.grid(b, c):
        top[i, j] = T.float32(-3.4028234663852886e38)
        for k in range(8):
            top[i, j] = T.max(top[i, j], pad[i, j, k])
    for i, j in T.grid(b, c):
        total[i, j] = T.float32(0)
        for k in range(8):
            total[i, j] = total[i, j] + T.if_then_else({inside}, T.if_then_else(
                T.float32(0.5) < t[i], T.exp(pad[i, j, k] - {top}),
                T.Cast("float32", pad[i, j, k] == top[i, j])), T.float32(0))
    for i, j in T.grid(b, c):
        s[i, j] = T.if_then_else(T.float32(0.5) < t[i], T.log(total[i, j]), total[i, j])
        m[i, j] = top[i, j]
"""
RIGHT = {"inside": "j * 8 + k < v", "top": "top[i, j]"}


def chunks(**change: str) -> Any:
    return from_source(CHUNKS.format(**RIGHT | change))


def test_the_number_of_chunks_is_assumed() -> None:
    func = chunks()
    info = op_info(func)
    assert isinstance(info, OpInfo) and info.name == "relax.nn.chunked_logsumexp", info
    assert info.certificate.sizes and set(info.certificate.sizes) <= set(
        info.certificate.assumptions
    )
    assert not analyse(func).over_tensors().info


@pytest.mark.parametrize("change", [
    {"inside": "j * 8 + k < v - 1"},
    {"inside": "j * 4 + k < v"},
    {"inside": "j * 8 + k <= v"},
    {"top": "top[i, c - 1 - j]"},
    {"top": "top[i, j] * T.float32(2)"},
])  # fmt: skip
def test_mutants_are_refused(change: dict[str, str]) -> None:
    assert not op_info(chunks(**change))


def test_the_two_steps_are_a_softmax() -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((3, 21)).astype("float32")
    heat = np.array([0.7, 1.0, 2.0], "float32")
    types = [(a.shape, "float32") for a in (x, heat)]
    sums, maxima = run(legal(module(chunked_logsumexp, *types, chunk_size=8)), x, heat)
    arrays = [x, heat, sums, maxima]
    out = run(legal(module(softmax_from_chunks, *[(a.shape, "float32") for a in arrays])), *arrays)
    exact = np.exp(x / heat[:, None] - (x / heat[:, None]).max(1, keepdims=True))
    np.testing.assert_allclose(out, exact / exact.sum(1, keepdims=True), rtol=1e-5)


def test_no_temperature_takes_the_maximum() -> None:
    x = np.array([[1, 5, 2, 5, 0, 3, 1, 2, 5, 1]], "float32")
    heat = np.zeros(1, "float32")
    sums, maxima = run(
        legal(module(chunked_logsumexp, ((1, 10), "float32"), ((1,), "float32"), chunk_size=4)),
        x,
        heat,
    )
    arrays = [x, heat, sums, maxima]
    out = run(legal(module(softmax_from_chunks, *[(a.shape, "float32") for a in arrays])), *arrays)
    np.testing.assert_allclose(out, (x == 5) / np.float32(3), rtol=1e-6)


def legal(mod: Any) -> Any:
    return relax.transform.LegalizeOps()(mod)


@pytest.mark.parametrize(("index", "known"), [("t[i, j]", True), ("t[j, i]", False)])
def test_the_sizes_of_a_gather_are_those_of_its_indices(index: str, known: bool) -> None:
    func = from_source(f"""
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle, o: T.handle):
    b, v, m, n = T.int64(), T.int64(), T.int64(), T.int64()
    x = T.match_buffer(p, (b, v), "float32")
    t = T.match_buffer(q, (b, v), "int32")
    out = T.match_buffer(o, (m, n), "float32")
    for i, j in T.grid(m, n):
        out[i, j] = x[i, {index}]
""")
    info = op_info(func)
    assert isinstance(info, OpInfo) == known, info
    if isinstance(info, OpInfo):
        assert info.name == "relax.gather_elements" and len(info.certificate.sizes) == 2
