"""Equivalent readings: one compute that is several operators, each with its own certificate."""

from __future__ import annotations

import pytest

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.recognise import Matches
from opinfo.testing.calls import lower
from opinfo.testing.strip import strip

NN = "relax.nn."

#: A call, the canonical operator, and what else it must be told to be.
CASES: list[tuple[Matches, str, set[str]]] = [
    (Matches("relax.squeeze", ("float32[2, 1, n]",), {"axis": [1]}), "reshape", {"squeeze"}),
    (Matches("relax.expand_dims", ("int8[2, 3]",), {"axis": [1]}), "reshape", {"expand_dims"}),
    (Matches("relax.flatten", ("float32[2, n]",)), "reshape", {"flatten"}),
    (Matches("relax.matmul", ("float32[n, 4]", "float32[4, 5]")), "matmul", {"einsum"}),
    (Matches("relax.sum", ("float32[3, n]",), {"axis": [0]}), "sum", {"collapse_sum_to"}),
    (Matches("relax.zeros", (), {"shape": (2, "n"), "dtype": "float32"}), "full", {"zeros"}),
    (Matches("relax.ones", (), {"shape": (2,), "dtype": "int8"}), "full", {"ones"}),
    (Matches(NN + "avg_pool2d", ("float32[1, 3, 4, 5]",), {"pool_size": (4, 5)}),
     "mean", {"nn.avg_pool2d", "nn.adaptive_avg_pool2d"}),
    (Matches("relax.broadcast_to", ("float32[3, 1]",), {"shape": (3, 5)}),
     "broadcast_to", {"tile", "repeat"}),
    (Matches("relax.take", ("float32[9, 4]", "int64[3]"), {"axis": 0, "mode": "fast"}),
     "take", {"index_tensor"}),
]  # fmt: skip


@pytest.mark.parametrize(("case", "canonical", "others"), CASES, ids=[c.op for c, _, _ in CASES])
def test_every_operator_that_the_compute_is_gets_a_certificate(
    case: Matches, canonical: str, others: set[str]
) -> None:
    info = op_info(strip(lower(case)), alternatives=True)
    assert isinstance(info, OpInfo), info
    answers = {a.name.removeprefix("relax."): a for a in (info, *info.alternatives)}
    assert {canonical, *others} <= answers.keys()
    assert info.name in (case.op, f"relax.{canonical}")
    assert all(a.certificate.kind in ("rebuilt", "proved") for a in answers.values())


def test_a_1x1_convolution_is_not_a_matmul_of_its_own_buffers() -> None:
    case = Matches(NN + "conv2d", ("float32[1, 4, 6, 6]", "float32[8, 4, 1, 1]"))
    info = op_info(strip(lower(case)), alternatives=True)
    assert isinstance(info, OpInfo) and info.name == NN + "conv2d"
    assert "relax.matmul" not in {a.name for a in info.alternatives}


def test_a_full_of_another_number_has_no_alternatives() -> None:
    case = Matches("relax.full", (), {"shape": (2,), "fill_value": 2, "dtype": "int8"})
    info = op_info(strip(lower(case)), alternatives=True)
    assert isinstance(info, OpInfo) and not info.alternatives
