"""Targets that the documentation shows are those that opinfo reads."""

from __future__ import annotations

import re

import pytest
import tvm

import opinfo
from opinfo.byoc.building.read_target import compile_target, read_target
from tests.docs.pages import DOCS, ROOT

SHOWN = re.compile(
    r'target="([^"]+)"|--target "([^"]+)"|--target ([a-z]+)|[`"](llvm -[^`"]+|cuda -[^`"]+)[`"]'
)


def shown() -> set[str]:
    """Every target of the pages, tutorials and README."""
    files = [ROOT / "README.md", *DOCS.rglob("*.md"), *DOCS.rglob("*.py")]
    return {next(filter(None, m.groups())) for f in files for m in SHOWN.finditer(f.read_text())}


def test_the_targets_of_the_documentation_are_read() -> None:
    texts = shown()
    assert "llvm -mcpu=haswell" in texts
    for text in texts - {"cuda"}:  # without an -arch it needs a GPU
        kind = "cuda" if text.startswith("nvidia/") else text.split()[0]  # a GPU, or a kind
        read = read_target if kind == "cuda" else compile_target
        assert str(read(text).kind.name) == kind


@pytest.mark.parametrize(
    "text",
    ["llvm -mcpu=haswell -num-cores=2", "llvm -mcpu haswell --num-cores 2",
     " llvm  -num-cores=2 -mcpu=haswell ", '{"kind": "llvm", "mcpu": "haswell", "num-cores": 2}'],
)  # fmt: skip
def test_a_text_says_what_the_dict_says(text: str) -> None:
    expected = tvm.target.Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
    assert str(read_target(text)) == str(expected) == str(read_target(expected))


def test_flags_have_the_types_of_tvm() -> None:
    attrs = read_target("llvm -mattr=+avx2,+fma -fast-math -opt-level=2").attrs
    assert list(attrs["mattr"]) == ["+avx2", "+fma"]
    assert attrs["fast-math"] and attrs["opt-level"] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("llvm -mcqu=haswell", "llvm has no flag -mcqu; it has .*-mcpu"),
        ("llvm mcpu=haswell", "llvm has no flag mcpu"),
        ("llvm -num-cores=two", "-num-cores: expected a number, got two"),
        ("llvm -mcpu", "-mcpu: expected a value"),
        ("llvm -mcpu=a -mcpu=b", "-mcpu occurs twice"),
        ("llvm -mcpu=hasswell", "LLVM does not know the CPU hasswell; did you mean 'haswell'"),
        ("lvm -mcpu=haswell", "unknown kind lvm"),
        ("haswell", 'Target kind "haswell" is not defined'),
    ],
)
def test_a_wrong_target_is_one_line(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^target '{text}': {reason}") as found:
        opinfo.compile(tvm.IRModule(), [], target=text)
    assert "\n" not in str(found.value)
