"""Vectors, and buffers that are other buffers' elements: one definition, or a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from opinfo.analysis import lift
from opinfo.analysis.lifting.tir.unliftable import Unliftable
from opinfo.analysis.terms.evaluate import evaluate

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"
ARGS = 'def main(x: T.Buffer((4, 16), "float32"), out: T.Buffer((4, 16), "float32")):\n'


def program(body: str, args: str = ARGS) -> Any:
    return tvm.script.from_source(HEADER + args + body.lstrip("\n"))


PLAIN = """
    for i, j in T.grid(4, 16):
        out[i, j] = T.exp(x[i, j])
"""

SAME = {
    "vector loads and stores": """
    for i, j in T.grid(4, 4):
        out[i, T.Ramp(j * 4, 1, 4)] = T.exp(x[i, T.Ramp(j * 4, 1, 4)])
""",
    "a vector with a stride": """
    for i, j in T.grid(4, 8):
        out[i, T.Ramp(j, 8, 2)] = T.exp(x[i, T.Ramp(j, 8, 2)])
""",
    "flat views": """
    a = T.decl_buffer((64,), "float32", data=x.data)
    b = T.decl_buffer((64,), "float32", data=out.data)
    for i in range(64):
        b[i] = T.exp(a[i])
""",
    "other dimensions": """
    b = T.decl_buffer((8, 8), "float32", data=out.data)
    for i, j in T.grid(8, 8):
        b[i, j] = T.exp(x[i // 2, i % 2 * 8 + j])
""",
    "flat vectors under a guard": """
    b = T.decl_buffer((64,), "float32", data=out.data)
    for i, j in T.grid(4, 6):
        if j * 3 < 16:
            for k in range(3):
                if j * 3 + k < 16:
                    b[i * 16 + j * 3 + k] = T.exp(x[i, j * 3 + k])
""",
    "matched regions": """
    for i, j in T.grid(2, 4):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            s0, s1, t0, t1 = T.int32(), T.int32(), T.int32(), T.int32()
            a = T.match_buffer(x[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4),
                               strides=[s0, s1], offset_factor=1)
            b = T.match_buffer(out[vi * 2:vi * 2 + 2, vj * 4:vj * 4 + 4], (2, 4),
                               strides=[t0, t1], offset_factor=1)
            for k, l in T.grid(2, 4):
                b[k, l] = T.exp(a[k, l])
""",
    "a matched row": """
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            a = T.match_buffer(x[vi, 0:16], (16,), offset_factor=1)
            for l in range(16):
                out[vi, l] = T.exp(a[l])
""",
    "a stage that each iteration has for itself": """
    for i in range(4):
        t = T.alloc_buffer((16,), "float32")
        for j in range(16):
            t[j] = x[i, j]
        for j in range(16):
            out[i, j] = T.exp(t[j])
""",
}


@pytest.mark.parametrize("name", SAME)
def test_each_view_has_the_tensor_expression_of_plain_loops(name: str) -> None:
    plain = lift(program(PLAIN))
    assert lift(program(SAME[name]), plain.params).outputs[0].body is plain.outputs[0].body


@pytest.mark.parametrize("name", ["a vector with a stride", "flat vectors under a guard"])
def test_they_compute_it(name: str) -> None:
    func = program(SAME[name])
    value = np.random.default_rng(5).standard_normal((4, 16)).astype("float32")
    found = tvm.runtime.tensor(np.zeros_like(value))
    tvm.compile(func, target="llvm")(tvm.runtime.tensor(value), found)
    (c,) = lift(func).outputs
    points = dict(zip((a.atom for a in c.axes), np.indices((4, 16)), strict=True))
    wanted = evaluate(c.body, points, lambda t, i: value[tuple(i)])  # type: ignore[arg-type]
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


REFUSED = {
    "may be out of bounds": """
    for i, j in T.grid(4, 4):
        out[i, T.Ramp(j * 5, 1, 4)] = T.exp(x[i, T.Ramp(j * 4, 1, 4)])
""",
    "to one element": """
    for i, j in T.grid(4, 16):
        out[i, T.Ramp(j, 0, 4)] = T.exp(x[i, T.Ramp(0, 1, 4)])
""",
    "some element is not written": """
    b = T.decl_buffer((63,), "float32", data=out.data)
    for i in range(63):
        b[i] = x[i // 16, i % 16]
""",
    "be out of bounds": """
    b = T.decl_buffer((65,), "float32", data=out.data)
    for i in range(65):
        b[i] = x[0, 0]
""",
    "with another dtype": """
    b = T.decl_buffer((64,), "int32", data=out.data)
    for i in range(64):
        b[i] = 1
""",
    "its region has gaps": """
    for i in range(4):
        with T.sblock("b"):
            vi = T.axis.spatial(4, i)
            b = T.match_buffer(out[0:4, vi * 4:vi * 4 + 4], (4, 4), offset_factor=1)
            for k, l in T.grid(4, 4):
                b[k, l] = x[k, vi * 4 + l]
""",
    "read before it is written": """
    for i in range(4):
        t = T.alloc_buffer((16,), "float32")
        if i == 0:
            for j in range(16):
                t[j] = x[i, j]
        for j in range(16):
            out[i, j] = T.exp(t[j])
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_views_that_are_not_followed_are_refused(reason: str) -> None:
    with pytest.raises(Unliftable, match=reason):
        lift(program(REFUSED[reason]))


def _strided(strides: str, body: str) -> Any:
    return program(
        f"""
    b = T.match_buffer(o, (4, 16), "float32", strides={strides})
{body}""",
        'def main(x: T.Buffer((4, 16), "float32"), o: T.handle):\n',
    )


COPY = "    for i, j in T.grid(4, 16):\n        b[i, j] = x[i, j]\n"


@pytest.mark.parametrize("strides", ["(16, 1)", "(32, 1)", "(64, 4)"])
def test_strides_that_do_not_overlap(strides: str) -> None:
    assert lift(_strided(strides, COPY)).outputs


@pytest.mark.parametrize("strides", ["(8, 1)", "(0, 1)", "(1, 4)"])
def test_stores_through_strides_that_overlap(strides: str) -> None:
    with pytest.raises(Unliftable, match="may overlap"):
        lift(_strided(strides, COPY))


def test_a_view_of_strides_is_refused() -> None:
    body = '    f = T.decl_buffer((64,), "float32", data=b.data)\n'
    body += "    for i in range(64):\n        f[i] = x[0, 0]\n"
    with pytest.raises(Unliftable, match="a view of a buffer with strides"):
        lift(_strided("(32, 1)", body))
