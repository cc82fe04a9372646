"""Small outputs that are compared at each of their places, and what is nearly one of them."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.real.places import written_out as places

from ..foreign.case import Foreign, judge
from ..foreign.execute import difference
from ..foreign.unseen3.programs import changed, program

CARRIED = program(
    "running sums of columns, a total carried through three blocks of five",
    "x 15,n; out 15,n",
    """
    c = T.alloc_buffer((1,), scope="local")
    for j in range(n):
        c[0] = T.float32(0)
        for b in range(3):
            for k in range(5):
                c[0] = c[0] + x[b * 5 + k, j]
                out[b * 5 + k, j] = c[0]
    """,
    "relax.cumsum",
    axis=0,
)
BLOCKS = program(
    "running sums of rows: two blocks of three apart, the first total added to the second",
    "x n,6; out n,6",
    """
    for i in range(n):
        for b in range(2):
            out[i, b * 3] = x[i, b * 3]
            for k in range(2):
                out[i, b * 3 + k + 1] = out[i, b * 3 + k] + x[i, b * 3 + k + 1]
        for k in range(3):
            out[i, k + 3] = out[i, k + 3] + out[i, 2]
    """,
    "relax.cumsum",
    axis=1,
)
DOUBLED = program(
    "running sums of four by doubling",
    "x 4; out 4",
    """
    t = T.alloc_buffer((4,))
    for i in range(4):
        t[i] = T.if_then_else(i >= 1, x[i] + x[T.max(i - 1, 0)], x[i])
    for i in range(4):
        out[i] = T.if_then_else(i >= 2, t[i] + t[T.max(i - 2, 0)], t[i])
    """,
    "relax.cumsum",
    axis=0,
)
DIFFERENCES = program(
    "average of every second window of four: differences of running sums in a table",
    "x 1,2,10; out 1,2,4",
    """
    s = T.alloc_buffer((2, 11))
    for c in range(2):
        s[c, 0] = T.float32(0)
        for t in range(10):
            s[c, t + 1] = s[c, t] + x[0, c, t]
    for c, t in T.grid(2, 4):
        out[0, c, t] = (s[c, t * 2 + 4] - s[c, t * 2]) * T.float32(0.25)
    """,
    "relax.nn.avg_pool1d",
    pool_size=(4,),
    strides=(2,),
    count_include_pad=False,
)
PEELED = program(
    "maximum of two neighbours, the last column apart",
    "x 1,2,4; out 1,2,4",
    """
    for c in range(2):
        for t in range(3):
            out[0, c, t] = T.max(x[0, c, t], x[0, c, t + 1])
        out[0, c, 3] = x[0, c, 3]
    """,
    "relax.nn.max_pool1d",
    pool_size=(2,),
    padding=(0, 1),
)
PHASES = program(
    "transposed convolution of three taps with a stride of two, a loop for each phase",
    "x 1,3,4; w 3,2,3; out 1,2,9",
    """
    for o in range(2):
        for t in range(4):
            out[0, o, t * 2 + 1] = T.float32(0)
            for c in range(3):
                out[0, o, t * 2 + 1] += x[0, c, t] * w[c, o, 1]
        for t in range(5):
            out[0, o, t * 2] = T.float32(0)
            for c in range(3):
                out[0, o, t * 2] += (
                    T.if_then_else(t < 4, x[0, c, T.min(t, 3)], T.float32(0)) * w[c, o, 0]
                    + T.if_then_else(t >= 1, x[0, c, T.max(t - 1, 0)], T.float32(0)) * w[c, o, 2])
    """,
    "relax.nn.conv1d_transpose",
    strides=(2,),
)
STRASSEN = program(
    "product of two by two by three products of sums (Karatsuba for rows), a column",
    "x 2,2; y 2,1; out 2,1",
    """
    t = T.alloc_buffer((1,), scope="local")
    t[0] = x[0, 0] * (y[0, 0] + y[1, 0])
    out[0, 0] = t[0] + (x[0, 1] - x[0, 0]) * y[1, 0]
    t[0] = x[1, 0] * (y[0, 0] - y[1, 0])
    out[1, 0] = t[0] + (x[1, 0] + x[1, 1]) * y[1, 0]
    """,
    "relax.matmul",
)
LINEAR = program(
    "linear upsampling of columns by two, weights by phase",
    "x 1,n,1,3; out 1,n,1,6",
    """
    for c, j in T.grid(n, 6):
        out[0, c, 0, j] = T.if_then_else(
            j % 2 == 0,
            x[0, c, 0, j // 2] * T.float32(0.75)
            + x[0, c, 0, T.max(j // 2 - 1, 0)] * T.float32(0.25),
            x[0, c, 0, j // 2] * T.float32(0.75)
            + x[0, c, 0, T.min(j // 2 + 1, 2)] * T.float32(0.25))
    """,
    "relax.image.resize2d",
    size=[1, 6],
    method="linear",
    coordinate_transformation_mode="half_pixel",
)
MATCHES = [CARRIED, BLOCKS, DOUBLED, DIFFERENCES, PEELED, PHASES, STRASSEN, LINEAR]

DECOYS = [
    changed("the total starts again in the last block", CARRIED,
            ("        for b in range(3):\n", "        for b in range(3):\n"
             "            c[0] = T.if_then_else(b == 2, T.float32(0), c[0])\n")),
    changed("the total is stored before the element is added", CARRIED,
            ("                c[0] = c[0] + x[b * 5 + k, j]\n"
             "                out[b * 5 + k, j] = c[0]\n",
             "                out[b * 5 + k, j] = c[0]\n"
             "                c[0] = c[0] + x[T.min(b * 5 + k + 1, 14), j]\n")),
    changed("the last block lacks the total", BLOCKS, ("for k in range(3):", "for k in range(2):")),
    changed("the total of two elements is added", BLOCKS, ("+ out[i, 2]", "+ out[i, 1]")),
    changed("the total is subtracted", BLOCKS, ("+ out[i, 2]", "- out[i, 2]")),
    changed("doubled by three", DOUBLED, ("i >= 2, t[i] + t[T.max(i - 2, 0)]",
                                          "i >= 2, t[i] + t[T.max(i - 3, 0)]")),
    changed("the second step reads the first buffer", DOUBLED,
            ("t[i] + t[T.max(i - 2, 0)]", "t[i] + x[T.max(i - 2, 0)]")),
    changed("one of the windows is longer", DIFFERENCES,
            ("- s[c, t * 2])", "- s[c, T.if_then_else(t == 3, 5, t * 2)])")),
    changed("a sum is added", DIFFERENCES, ("+ 4] - s", "+ 4] + s")),
    changed("the border counts zero", PEELED,
            ("out[0, c, 3] = x[0, c, 3]", "out[0, c, 3] = T.max(x[0, c, 3], T.float32(0))")),
    changed("the border is of the other channel", PEELED,
            ("out[0, c, 3] = x[0, c, 3]", "out[0, c, 3] = x[0, 1 - c, 3]")),
    changed("the taps of a phase are exchanged", PHASES,
            ("w[c, o, 0]", "w[c, o, 9]"), ("w[c, o, 2]", "w[c, o, 0]"),
            ("w[c, o, 9]", "w[c, o, 2]")),
    changed("one phase is subtracted", PHASES, ("\n                    + T.if_then_else(t >= 1",
                                                "\n                    - T.if_then_else(t >= 1")),
    changed("one sign", STRASSEN, ("(y[0, 0] - y[1, 0])", "(y[0, 0] + y[1, 0])")),
    changed("the weights of one phase are exchanged", LINEAR,
            ("T.float32(0.75)\n            + x[0, c, 0, T.max(j // 2 - 1, 0)] * T.float32(0.25)",
             "T.float32(0.25)\n            + x[0, c, 0, T.max(j // 2 - 1, 0)] * T.float32(0.75)")),
    changed("the weights do not sum to one", LINEAR, ("T.float32(0.25),", "T.float32(0.5),")),
]  # fmt: skip


#: Sums and products of narrow integers wrap before they are widened; elements may be infinite.
WRAPPING = [
    program("int8 products, summed in int32", "x int8 2,3; y int8 3,4; out int32 2,4", """
    for i, j in T.grid(2, 4):
        out[i, j] = T.Cast("int32", x[i, 0] * y[0, j])
        for k in range(2):
            out[i, j] = out[i, j] + T.Cast("int32", x[i, k + 1] * y[k + 1, j])
    """),
    program("running totals of uint8, widened", "x uint8 6; out int32 6", """
    c = T.alloc_buffer((1,), "uint8", scope="local")
    c[0] = T.uint8(0)
    for b in range(2):
        for k in range(3):
            c[0] = c[0] + x[b * 3 + k]
            out[b * 3 + k] = T.Cast("int32", c[0])
    """),
    program("coefficients beyond float64", "x float64 8; out float64 6", f"""
    for i in range(6):
        out[i] = (x[i] + x[i + 1]){" * T.float64(1e38)" * 9}
    """),
]  # fmt: skip


@pytest.mark.parametrize("case", WRAPPING, ids=lambda c: c.form)
def test_numbers_that_do_not_fit_are_no_operator(case: Foreign) -> None:
    assert isinstance(analyse(case.build()).info, Refusal)


def test_places_without_a_coordinate_are_no_fault() -> None:
    case = program("the least index", "x int32 3,4; out int32 3,4", """
    for i, j in T.grid(3, 4):
        out[i, j] = x[i, T.min(T.min(T.min(T.max(j - 1, 0), 3), i), 0) % 4]
    """)  # fmt: skip
    found = analyse(case.build()).info
    assert isinstance(found, Refusal) and "fault" not in found.reason


def test_squares_of_squares_and_long_sums_are_refused_soon() -> None:
    deep = "x[i] + x[i + 1]" + "".join(f" + x[{k % 8}]" for k in range(120))
    for body in (deep, "x[i] * T.float32(3)"):
        case = program("a chain", "x 8; out 6", f"""
    t = T.alloc_buffer((6,))
    for i in range(6):
        t[i] = {body}
    for i in range(6):
        out[i] = t[i]
        for k in T.unroll(40):
            out[i] = out[i] * out[i] + T.float32(1)
    """)  # fmt: skip
        found = analyse(case.build()).info
        assert isinstance(found, Refusal) and "fault" not in found.reason


@pytest.mark.parametrize("case", MATCHES, ids=lambda c: c.form)
def test_programs_are_the_operator_that_they_are_at_each_place(case: Foreign) -> None:
    func = case.build()
    info = analyse(func).of(func).info
    verdict, why = judge(case, info)
    assert verdict == "recovered", why
    assert isinstance(info, OpInfo) and not info.certificate.exact
    assert not difference(func, info.name, info.attrs, info.operands)


@pytest.mark.parametrize("case", DECOYS, ids=lambda c: c.form)
def test_programs_that_differ_at_a_place_are_refused(case: Foreign) -> None:
    assert isinstance(analyse(case.build()).info, Refusal)


def test_an_output_of_many_places_is_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 15 rows are; its columns are whole indices, and do not count."""
    monkeypatch.setattr(places, "_MOST_PLACES", 15)
    assert isinstance(analyse(CARRIED.build()).info, OpInfo)
    monkeypatch.setattr(places, "_MOST_PLACES", 14)
    assert isinstance(analyse(CARRIED.build()).info, Refusal)
