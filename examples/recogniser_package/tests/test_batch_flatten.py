"""The recogniser, tested by opinfo's kit."""

import batch_flatten
import pytest

from opinfo.testing import Case, recogniser_cases


@pytest.mark.parametrize("case", recogniser_cases(batch_flatten), ids=str)
def test_batch_flatten(case: Case) -> None:
    case.check()
