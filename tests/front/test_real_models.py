"""Real models, stripped of every name: their operators are recovered with certificates."""

from __future__ import annotations

import pytest

from benchmarks.analysis.models import measure
from tests import models

RUN = ("squeezenet", "bert_n", "swin")


@pytest.mark.slow
@pytest.mark.part(*models.PART)
@pytest.mark.parametrize("name", models.NAMES)
def test_operators_are_recovered_and_raised(name: str) -> None:
    found = measure(name, execute=name in RUN)
    assert found.sites > 0 and found.share >= 0.97, found.kept
    assert sum(found.certificates.values()) == found.raised
    assert found.different_rebuilt == 0, "a rebuilt PrimFunc legalises to another one"
    assert found.outputs in ("not run", "bit-equal")
