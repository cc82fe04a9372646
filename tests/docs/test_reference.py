"""The reference has every public name, and each docstring the sections that its signature needs."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from . import command_line
from .pages import DOCS

PACKAGES = [
    name
    for name in ("", ".analysis", ".layout", ".byoc", ".jit", ".transform", ".testing")
    if importlib.util.find_spec(f"opinfo{name}") is not None
]
SECTION = re.compile(r"^(\w+):$", re.MULTILINE)


def _public() -> Iterator[tuple[str, Any]]:
    """The public names, and what they are; modules have pages of their own."""
    for name in PACKAGES:
        package = importlib.import_module(f"opinfo{name}")
        for member in package.__all__:
            value = getattr(package, member)
            if not inspect.ismodule(value):
                yield f"opinfo{name}.{member}", value


PUBLIC = dict(_public())


def test_every_public_name_is_in_the_reference_once() -> None:
    text = "".join(p.read_text() for p in sorted((DOCS / "reference").glob("*.md")))
    documented = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    again = {"opinfo.jit.Session", "opinfo.testing.Matches", "opinfo.testing.Refuses"}
    assert sorted(documented) == sorted(PUBLIC.keys() - again)


def _sections(docstring: str) -> dict[str, str]:
    """The text of each section by its title; "" is what comes before the first."""
    parts = SECTION.split(inspect.cleandoc(docstring))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def _described(sections: dict[str, str], *titles: str) -> set[str]:
    """The names that the entries of sections begin with."""
    text = "\n".join(sections.get(t, "") for t in titles)
    entries = re.findall(r"^    ([\w*, ]+?)(?: \(.*?\))?:", text, re.MULTILINE)
    return {n.strip(" *") for entry in entries for n in entry.split(",")}


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if inspect.isroutine(v)])
def test_functions_say_what_they_take_and_return(name: str) -> None:
    function = PUBLIC[name]
    sections = _sections(function.__doc__ or "")
    assert _is_summary(sections[""]), f"{name}: expected one line that says what it does"
    signature = inspect.signature(function)
    missing = set(signature.parameters) - _described(sections, "Args")
    assert not missing, f"{name}: Args lack {sorted(missing)}"
    if signature.return_annotation not in (None, "None", inspect.Signature.empty):
        assert {"Returns", "Yields"} & set(sections), f"{name}: expected a section Returns"


@pytest.mark.parametrize("name", [n for n, v in PUBLIC.items() if inspect.isclass(v)])
def test_classes_say_what_they_have(name: str) -> None:
    kind = PUBLIC[name]
    sections = _sections(kind.__doc__ or "")
    assert _is_summary(sections[""]), f"{name}: expected one line that says what it is"
    if issubclass(kind, BaseException):
        return
    if dataclasses.is_dataclass(kind):
        needed = {f.name for f in dataclasses.fields(kind) if not f.name.startswith("_")}
    else:
        needed = set(inspect.signature(kind).parameters)
    missing = needed - _described(sections, "Args", "Attributes")
    assert not missing, f"{name}: Args or Attributes lack {sorted(missing)}"
    for member, value in vars(kind).items():
        if not member.startswith("_") and inspect.isfunction(getattr(value, "__func__", value)):
            if value.__name__ != "<lambda>":  # the default of a field
                assert inspect.getdoc(value), f"{name}.{member} has no docstring"


def _is_summary(text: str) -> bool:
    first = text.strip().split("\n\n")[0]
    return first.endswith(".") and "\n" not in first.strip()


def test_no_directive_of_another_tool() -> None:
    for name, value in PUBLIC.items():
        if callable(value):
            assert ":class:`" not in (value.__doc__ or ""), f"{name}: expected plain backticks"
            assert ":func:`" not in (value.__doc__ or ""), f"{name}: expected plain backticks"


def test_the_command_line_page_is_current() -> None:
    assert command_line.PAGE.read_text() == command_line.page(), (
        "run `python -m tests.docs.command_line`"
    )


def test_the_annotation_page_has_every_attribute() -> None:
    from opinfo.analysis.annotate import KEYS

    text = (DOCS / "reference" / "annotation.md").read_text()
    assert set(KEYS) == set(re.findall(r"^\| `(opinfo\.\w+)`", text, re.MULTILINE))
