"""A sample of the foreign PrimFuncs; `python -m benchmarks.foreign` runs all of them."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo
from opinfo.analysis.answer.recover import analyse
from opinfo.testing.strip import strip
from tests.analysis.foreign import corpus
from tests.analysis.foreign.case import Foreign, judge
from tests.analysis.foreign.execute import difference

EVERY = 7
ALL = [(family, c) for family, c in corpus() if not family.startswith("unseen")]
#: Forms beside the sample: clamps by comparisons, literals that are not quite an operator's.
FORMS = ("clipped by two ifs", "relu6 by two Selects", "gelu, divided by the root of two",
         "one hot by a comparison of every column", "one hot by a cast", "sigmoid by tanh",
         "tanh by sigmoid", "gelu by a sigmoid of twice the argument of tanh",
         "rows by index, a while loop over columns", "k in a while loop",
         "scattered: each input adds its kernel to the output",
         "softmax online, with scalars in registers", "online: maximum and sum in one pass",
         "sum with Kahan's compensation (equal up to rounding)",
         "interleaved pairs: a stack seen flat", "lower triangle by two loops a row",
         "average pool that counts the elements inside", "running products in place",
         "convolution: fused, predicated, threads",
         "eight values of four bits a word, masked and then shifted",
         "groups quantised to bytes by their largest magnitude, one loop nest",
         "SwiGLU of the two halves of a row, by an exponential",
         "convolution: padded at each tile of rows", "product: uneven tiles in threads",
         "attention in blocks of two keys, totals rescaled for each block",
         "attention of one head in one pass (flash), keys in two blocks",
         "causal attention, later keys left out by the loop",
         "attention of two heads, a row of scores in registers",
         "layer norm with Welford's recurrence", "variance by Welford's recurrence",
         "mean as a running mean", "softmax online over two blocks of a row",
         "softmax: a row padded to a power of two with minus infinity",
         "softmax of channels by powers of two",
         "average pool: a running total, the element that leaves subtracted (equal up to rounding)",
         "convolution of one dimension: three registers that are shifted along",
         "product: skewed by i + k, bounds by minimum and maximum",
         "product through flat views, pointers that are counted up",
         "product: programs in groups of two rows of tiles, masked tiles in registers",
         "product: sixteen flat threads, two by two results in registers of each",
         "matrix times vector: four rows at a time, a tail of two",
         "transpose in place: a copy, then the two halves exchanged",
         "average pool: the window cut to the image, divided by its area",
         "convolution over the part of the kernel that is inside",
         "maximum pool: uneven, unrolled", "edges repeated by two ifs on the index",
         "circular borders, three guarded stores", "one hot: zeros, then a one at each place",
         "nearest neighbour with a ratio of floats",
         "every second column from the last, counted down in a while loop",
         "rotary embedding with wide tables, in pairs",
         "rotary embedding of two halves, one loop over pairs",
         "two values of four bits a byte, stored in pairs",
         "index of the largest, its value in a register",
         "sum of float16 in float32", "sum of bytes in int32, wrapped by the cast",
         "exclusive or of bools by branches", "exclusive or of bools by not equal",
         "dequantise with the zero point multiplied out",
         "sigmoid, exponentials of negative numbers only",
         "tanh by the exponential of twice the argument", "leaky relu by a comparison and a factor",
         "leaky relu by two parts", "clip by a minimum of maxima of negatives",
         "Winograd F(2, 3) of one dimension (equal up to rounding)",
         "clip by a chain of ifs", "index of the smallest, a pair of scalars",
         "sign by two comparisons", "concatenation of three, a flat loop with guards",
         "matrix times vector: four totals, a tail, then a tree",
         "products of rows in two halves, then one by the other",
         "softmax: four lanes of maxima and totals, joined by two steps",
         "layer norm: totals of four lanes, the variance from squares (equal up to rounding)",
         "RMS norm: squares in four lanes, a tail of two",
         "variance in two passes, each over two halves",
         "MetaSchedule for CPUs: product, flat and unrolled",
         "convolution: left border, interior and right border in loops of their own")  # fmt: skip
SAMPLE = [
    pytest.param(c, id=f"{family}-{c.form}")
    for family, c in [*ALL[::EVERY], *((f, c) for f, c in corpus() if c.form in FORMS)]
]
#: Of the sample: they may be refused, never answered wrongly.
UNKNOWN = (
    "winograd",
    "group_norm by hand",
)


@pytest.mark.parametrize("case", SAMPLE)
def test_foreign_forms_are_the_operators_they_are(case: Foreign) -> None:
    verdict, why = judge(case, analyse(strip(case.build())).info)
    assert verdict != "wrong", why
    if case.op and not any(text in case.form for text in UNKNOWN):
        assert verdict == "recovered", why


def test_the_corpus_is_large() -> None:
    assert sum(bool(c.op) for _, c in ALL) >= 200
    assert sum(not c.op for _, c in ALL) >= 25


#: The families whose programs were executed before the analysis saw them.
NEWER = ("unseen3", "unseen4", "unseen5")
#: The interpreter of threads has no blocks that reduce across them; Relax executes no blocked
#: channels.
NOT_EXECUTED = ("softmax: rows by threads", "dlight for GPUs: weights by row times a vector",
                "dlight for GPUs: sum of rows", "dlight for GPUs: softmax",
                "dlight for GPUs: layer norm",
                "convolution of blocked channels, data, kernel and result in blocks")  # fmt: skip
EXECUTED = [c for family, c in corpus() if family in NEWER and c.form not in NOT_EXECUTED][::EVERY]


@pytest.mark.parametrize("case", EXECUTED, ids=lambda c: c.form)
def test_answers_compute_what_the_programs_do(case: Foreign) -> None:
    func = strip(case.build())
    info = analyse(func).of(func).info
    verdict, why = judge(case, info)
    assert verdict != "wrong", why
    if isinstance(info, OpInfo):
        assert not difference(func, info.name, info.attrs, info.operands)


DECOYS = [c for family, c in corpus() if family in NEWER and not c.op]


def test_what_is_nearly_an_operator_is_not_answered() -> None:
    answered = {c.form: repr(info) for c in DECOYS if (info := analyse(strip(c.build())).operator)}
    assert len(DECOYS) > 100 and not answered
