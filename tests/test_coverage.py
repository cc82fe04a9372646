"""A fixed sample of the coverage sweep, and that its page is about the operators that TVM has."""

from __future__ import annotations

import re

import pytest
from docs import coverage

from .registry import lowered
from .variants import Variant, thin, variants
from .variants.judge import judge

SAMPLE = 1  # calls of an operator


def _sample() -> list[Variant]:
    return [v for vs in variants().values() for v in thin(vs, SAMPLE)]


@pytest.mark.parametrize("call", _sample(), ids=str)
def test_sampled_calls_are_not_wrong(call: Variant) -> None:
    verdict = judge(call)
    assert verdict.grade != "wrong", verdict.note


def test_the_page_is_about_the_operators_of_the_registry() -> None:
    assert set(re.findall(r"`(relax\.[\w.]+)`", coverage.PAGE.read_text())) >= lowered()


def test_variants_are_of_operators_of_the_registry() -> None:
    assert set(variants()) <= lowered()
