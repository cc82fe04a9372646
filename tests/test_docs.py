"""The pages are true: the five-minute page is followed to the letter, the table is up to date."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from docs import operators

from opinfo.analysis import OpInfo, op_info, recognise

from .analysis import test_recognisers as cases
from .strip import strip

PAGE = Path(__file__).parent.parent / "docs" / "add-an-operator.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
NAME = f"{recognise.__name__}.outer"


@pytest.fixture
def outer() -> Iterator[ModuleType]:
    """The page's file as a module of the package, for the length of a test."""
    spec = importlib.machinery.ModuleSpec(NAME, None)
    module = importlib.util.module_from_spec(spec)
    module.__package__ = recognise.__name__
    sys.modules[NAME] = module
    exec(compile(BLOCKS[1], "outer.py", "exec"), module.__dict__)
    recognise.recognisers.cache_clear()
    try:
        yield module
    finally:
        del sys.modules[NAME], recognise._REGISTERED["outer"]
        recognise.recognisers.cache_clear()


def test_the_page_names_the_file_and_the_operator_is_left_out() -> None:
    assert "analysis/recognise/outer.py" in PAGE.read_text()
    recognise.recognisers.cache_clear()
    assert "relax.outer" not in {op for r in recognise.recognisers() for op in r.ops}


def test_first_step_prints_what_the_page_says() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(BLOCKS[0], "page", "exec"), {})
    assert printed.getvalue() == re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]


def test_following_the_page_adds_the_operator(outer: ModuleType) -> None:
    for case in outer.MATCHES:
        info = recognise_one(case)
        assert (info.name, info.operands) == ("relax.outer", (0, 1))
    for case in outer.REFUSES:
        cases.test_refusal(NAME, case)


def recognise_one(case: recognise.Matches) -> OpInfo:
    info = op_info(strip(cases.lower(case)))
    assert isinstance(info, OpInfo), info
    return info


def test_the_operator_table_is_up_to_date() -> None:
    assert operators.PAGE.read_text() == operators.page(), "run `python -m docs.operators`"
