"""Names of operators: which are known, and when TVM is asked for them again."""

from __future__ import annotations

import pytest
import tvm

from opinfo.byoc.patterns.op_names import check_names, operators


def test_an_operator_that_only_a_recogniser_has_does_not_list_all_again() -> None:
    relu6 = "relax.nn.relu6"
    assert relu6 not in set(map(str, tvm.ir.Op.list_op_names()))
    for _ in range(2):  # recognisers register some when they are first asked for
        check_names([relu6], "here")
    known = operators()
    check_names([relu6], "here")
    assert operators() is known


def test_an_operator_that_is_registered_later_is_known() -> None:
    late = "relax.opinfo_test_late"
    with pytest.raises(ValueError, match=r"here: unknown operator 'relax\.opinfo_test_late'"):
        check_names([late], "here")
    tvm.ir.register_op_attr(late, "TNonComputational", True)
    check_names([late], "here")
    assert late in operators()
