"""Objects that are not taken again by other folders: the compiler would find another file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opinfo.byoc.codegen.compilers.kept_code import kept_code
from opinfo.byoc.codegen.compilers.searched_folders import asked, searched
from opinfo.byoc.codegen.compilers.toolchain import _compile

ONE, TWO = "#define VALUE 1\n", "#define VALUE 2\n"
ASKS = f"#if __has_include(<new/y.h>)\n{TWO}#else\n{ONE}#endif\n"


def written(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        os.utime(file, (1, 1))


#: The header that is included, the folders of both environments, their files, and those of the
#: second only.
CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], dict[str, str], dict[str, str]]] = {
    "the same": ("x.h", ("a",), ("a",), {"a/x.h": ONE}, {}),
    "beside the folder": (
        "x.h", ("a",), ("a",), {"a/x.h": '#include "../up.h"\n', "up.h": ONE}, {"up.h": TWO}),
    "folders that were one in the other": (
        "inc/x.h", ("a", "a/inc"), ("a", "b"), {"a/inc/x.h": ONE, "b/x.h": ONE},
        {"a/inc/x.h": TWO}),
    "folders that are one in the other": (
        "inc/x.h", ("z", "a", "b"), ("z", "a", "a/inc"), {"a/inc/x.h": ONE, "b/y.h": ""},
        {"z/inc/x.h": TWO}),
    "beside the header that includes": (
        "s/x.h", ("a", "b"), ("a", "b"), {"a/s/x.h": '#include "y.h"\n', "b/y.h": ONE},
        {"a/s/y.h": TWO}),
    "in place of a system's, beside": (
        "s/x.h", ("a",), ("a",),
        {"a/s/x.h": '#include "cassert"\n#ifndef VALUE\n#define VALUE 1\n#endif\n'},
        {"a/s/cassert": TWO}),
    "one that is asked for": (
        "x.h", ("a",), ("a",),
        {"a/x.h": ASKS},
        {"a/new/y.h": ""}),
    "one that a macro names": (
        "x.h", ("a",), ("a",),
        {"a/x.h": "#define Y <new/y.h>\n" + ASKS.replace("<new/y.h>", "Y")},
        {"a/new/y.h": ""}),
    "through a link": (
        "x.h", ("a/link/../inc",), ("a/link/../inc",), {"a/inc/x.h": ONE, "d/inc/x.h": ONE},
        {"d/inc/x.h": TWO}),
}  # fmt: skip


@pytest.fixture
def value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bytes]:
    """Compile `int value = VALUE` with the header and the folders of an environment."""
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "cache"))

    def compiled(header: str, *words: str) -> bytes:
        source, output = tmp_path / "source" / "code.cc", tmp_path / "code.o"
        source.parent.mkdir(exist_ok=True)
        source.write_text(f"#include <{header}>\nint value = VALUE;\n")
        _compile(["g++", "-c", "-std=c++17", *words, str(source)], str(output), [])
        return output.read_bytes()

    return compiled


@pytest.mark.parametrize("name", CASES)
def test_what_another_environment_compiles(
    name: str, value: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, before, now, files, changed = CASES[name]
    for place, of, folders in (("e1", files, before), ("e2", {**files, **changed}, now)):
        written(tmp_path / place, of)
        if any("link" in folder for folder in folders):
            (tmp_path / place / "d" / "to").mkdir()
            (tmp_path / place / "a" / "link").symlink_to(tmp_path / place / "d" / "to")
    first, second = ([f"-I{tmp_path / place}/{folder}" for folder in folders]
                     for place, folders in (("e1", before), ("e2", now)))  # fmt: skip
    found = value(header, *first)
    result = value(header, *second)
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "empty"))
    assert result == value(header, *second)
    assert (result == found) == (name == "the same")


def test_one_that_was_asked_for_is_gone(value: Callable[..., bytes], tmp_path: Path) -> None:
    files = CASES["one that is asked for"][3]
    written(tmp_path / "e1", {**files, "a/new/y.h": ""})
    written(tmp_path / "e2", files)
    assert value("x.h", f"-I{tmp_path}/e1/a") != value("x.h", f"-I{tmp_path}/e2/a")


def test_folders_are_relative_to_where_the_compiler_runs(
    value: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, {"e1/inc/x.h": ONE, "e2/inc/x.h": TWO})
    for words in (["-Iinc"], ["-I", "inc"]):
        results = []
        for place in ("e1", "e2"):
            monkeypatch.chdir(tmp_path / place)
            results.append(value("x.h", *words))
        assert results[0] != results[1]


def test_a_folder_that_other_words_name_stays(
    value: Callable[..., bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file below it is found by the other word, not where its folder moved."""
    written(tmp_path, {"e1/sys/x.h": ONE, "e2/sys/x.h": ONE})
    words = ["-isystem", f"{tmp_path}/e1/sys"]
    first = value("x.h", f"-I{tmp_path}/e1", *words)
    written(tmp_path, {"e1/sys/x.h": TWO})
    assert value("x.h", f"-I{tmp_path}/e2", *words) != first
    assert searched(["-I/a", "-I/b/"], ["", "/a/c"])[0] == ["-I/a", "-I/0"]


def test_names_that_are_asked_for() -> None:
    text = b'#ifdef __has_include\n#if __has_include(<a/b.h>) || __has_include ( "c")'
    assert asked(text) == frozenset(("a/b.h", "c"))
    assert asked(b"#if __has_include(NAME)") is None
    assert asked(b"#if defined(__has_include)") == frozenset()


def test_a_damaged_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "code.cc").write_text("int x;\n")
    found = kept_code(["g++", "-I/none", "-c", str(tmp_path / "code.cc")])
    assert found is not None and not found.find(str(tmp_path / "code.o"))
