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

from benchmarks.analysis import operators
from opinfo.analysis import Matches, OpInfo, op_info, recogniser_scope, unregister
from opinfo.analysis.recognise import contraction
from opinfo.testing.calls import lower
from opinfo.testing.strip import strip

from ..analysis.recognise import test_recognisers as cases
from .pages import DOCS

PAGE = DOCS / "guides" / "add-an-operator.md"
BLOCKS = re.findall(r"```python[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
NAME = f"{contraction.__name__}.outer"


@pytest.fixture
def without_outer() -> Iterator[None]:
    """The package without the file that the page adds."""
    with recogniser_scope():
        unregister("outer")
        module = sys.modules.pop(NAME)
        try:
            yield
        finally:
            sys.modules[NAME] = module


@pytest.fixture
def outer(without_outer: None) -> Iterator[ModuleType]:
    """The page's file as a module of the package, for the length of a test."""
    spec = importlib.machinery.ModuleSpec(NAME, None)
    module = importlib.util.module_from_spec(spec)
    module.__package__ = contraction.__name__
    sys.modules[NAME] = module
    exec(compile(BLOCKS[1], "outer.py", "exec"), module.__dict__)
    yield module


def test_the_page_shows_the_whole_file() -> None:
    path = Path(contraction.__path__[0]) / "outer.py"
    assert "analysis/recognise/contraction/outer.py" in PAGE.read_text()
    assert BLOCKS[1].rstrip() == path.read_text().rstrip()


def test_without_the_file_the_operator_is_not_known(without_outer: None) -> None:
    known: dict[str, object] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(BLOCKS[0], "page", "exec"), known)
    assert getattr(op_info(known["func"]), "name", "") != "relax.outer"


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


def recognise_one(case: Matches) -> OpInfo:
    info = op_info(strip(lower(case)))
    assert isinstance(info, OpInfo), info
    return info


def test_the_operator_table_is_up_to_date() -> None:
    assert operators.PAGE.read_text() == operators.page(), "run `python -m benchmarks.operators`"


def test_a_recogniser_outside_of_the_package(without_outer: None) -> None:
    page: dict[str, object] = {"__name__": "notebook"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(BLOCKS[0], "page", "exec"), page)
    for _ in range(2):  # the cell is run twice
        exec(compile(BLOCKS[2], "cell", "exec"), page)
        assert getattr(op_info(page["func"]), "name", "") == "relax.outer"
