"""Tests of a backend or a recogniser that lives in a package of its own.

    CASES = backend_cases(THEIR_NPU, EXAMPLES)

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_their_npu(case):
        case.check()

opinfo tests its own backends and recognisers with it.
"""

from .backend_checks import backend_cases, check_backend
from .case import Case
from .example import Example
from .recogniser_checks import check_recogniser, recogniser_cases

__all__ = ["Case", "Example", "backend_cases", "check_backend", "check_recogniser",
           "recogniser_cases"]  # fmt: skip
