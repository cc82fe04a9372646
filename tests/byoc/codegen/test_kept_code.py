"""Objects of generated code that were compiled before: when one is taken again."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from opinfo.byoc.backends.nvidia.libraries import locate
from opinfo.byoc.codegen.compilers import toolchain
from opinfo.byoc.codegen.compilers.kept_code import KeptCode, kept_code
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, shared
from tests.common.damaged_entries import DAMAGES

TEXT = '#include <answer 1.h>\nextern "C" int answer() { return ANSWER; }\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "code"


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "in clude" / "answer 1.h"
    path.parent.mkdir()
    path.write_text("#define ANSWER 42\n")
    os.utime(path, (1, 1))
    return path


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources that a compiler was run for."""
    out: list[str] = []
    write = toolchain._write

    def noted(stage: str, command: list[str], *words: object) -> None:
        if stage == "compile":
            out.append(Path(command[-1]).name)
        write(stage, command, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(toolchain, "_write", noted)
    return out


def build(folder: Path, header: Path, *options: str, text: str = TEXT) -> bytes:
    """The library of a source in a folder of its own."""
    place = folder / f"build{len(os.listdir(folder))}"
    place.mkdir()
    (place / "code.cc").write_text(text)
    shared(str(place / "out.so"), str(place / "code.cc"), ["-O0", f"-I{header.parent}", *options])
    return (place / "out.so").read_bytes()


def test_the_same_code_is_compiled_once(
    cache: Path, header: Path, compiled: list[str], tmp_path: Path
) -> None:
    first = build(tmp_path, header)
    assert len(list(cache.iterdir())) == 1
    assert build(tmp_path, header) == first and compiled == ["code.cc"]


def test_what_differs_is_compiled(
    cache: Path, header: Path, compiled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path, header)
    build(tmp_path, header, "-O1")
    build(tmp_path, header, text=TEXT + "\n")
    monkeypatch.setenv("CPATH", str(tmp_path))
    build(tmp_path, header)
    assert len(compiled) == 4 == len(list(cache.iterdir()))


@pytest.mark.parametrize("change", ["size", "content", "absence"])
def test_a_changed_header_is_read_again(
    change: str, cache: Path, header: Path, compiled: list[str], tmp_path: Path
) -> None:
    first = build(tmp_path, header)
    if change == "absence":
        header.unlink()
        with pytest.raises(CompilerError, match=r"answer 1\.h"):
            build(tmp_path, header)
        return
    header.write_text("#define ANSWER 4242\n" if change == "size" else "#define ANSWER 43\n")
    os.utime(header, (2, 2))
    assert build(tmp_path, header) != first and len(compiled) == 2


def test_a_header_that_is_written_again_is_the_same(
    cache: Path, header: Path, compiled: list[str], tmp_path: Path
) -> None:
    first = build(tmp_path, header)
    header.unlink()
    header.write_text("#define ANSWER 42\n")
    assert build(tmp_path, header) == first and len(compiled) == 1
    changed = header.with_name("part")
    changed.write_text("#define ANSWER 24\n")
    os.utime(changed, ns=(header.stat().st_mtime_ns + 1,) * 2)
    changed.replace(header)
    assert build(tmp_path, header) != first and len(compiled) == 2


@pytest.mark.parametrize("damage", [*DAMAGES, "others"])
def test_what_is_damaged_is_compiled_again(
    damage: str, cache: Path, header: Path, compiled: list[str], tmp_path: Path
) -> None:
    first = build(tmp_path, header)
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    if damage == "others":
        cache.chmod(0o777)
    else:
        entry.write_bytes(DAMAGES[damage](whole))
    assert build(tmp_path, header) == first and len(compiled) == 2


@pytest.mark.parametrize(
    ("text", "options"),
    [("int x;", ["-march=native"]), ('asm(".incbin \\"/etc/passwd\\"");', []),
     ('const char* x = __DATE__;', []), ('#include "beside.h"\n', [])],
)  # fmt: skip
def test_what_depends_on_more_is_not_kept(
    text: str, options: list[str], cache: Path, header: Path, compiled: list[str], tmp_path: Path
) -> None:
    for k in range(2):
        place = tmp_path / f"b{k}"
        place.mkdir()
        (place / "beside.h").write_text("int x;\n")
        (place / "code.cc").write_text(text)
        shared(str(place / "out.so"), str(place / "code.cc"), options)
    assert len(compiled) == 2 and (not cache.exists() or not list(cache.iterdir()))


def kept(source: Path) -> KeptCode:
    out = kept_code(["g++", "-c", str(source)])
    assert out is not None
    return out


def test_a_header_that_changes_while_the_compiler_runs_is_not_trusted(
    cache: Path, header: Path, tmp_path: Path
) -> None:
    source, code = tmp_path / "inner" / "code.cc", tmp_path / "code.o"
    source.parent.mkdir()
    source.write_text(TEXT)
    code.write_bytes(b"object")
    rule = f"code.o: {source} \\\n {str(header).replace(' ', chr(92) + ' ')}\n"
    found = kept(source)
    time.sleep(0.01)
    os.utime(header)
    found.keep(str(code), rule)
    assert not cache.exists()
    os.utime(header, (1, 1))
    kept(source).keep(str(code), rule)
    assert kept(source).find(str(tmp_path / "copy.o"))
    assert (tmp_path / "copy.o").read_bytes() == b"object"


def test_another_compiler_compiles_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "code.cc"
    source.write_text("int x;\n")
    before = kept(source).entry
    other = tmp_path / "bin" / "g++"
    other.parent.mkdir()
    found = shutil.which("g++")
    assert found is not None
    other.write_text(f'#!/bin/sh\nexec {found} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{os.environ['PATH']}")
    assert kept(source).entry != before


def test_that_a_header_compiles_is_asked_once(
    cache: Path, header: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = subprocess.run

    def noted(command: list[str], **options: object) -> object:
        asked.append(command[0])
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", noted)
    missing = header.with_name("missing.h")
    missing.write_text("#include <absent.h>\n")
    for _ in range(2):
        locate._compile_error.cache_clear()  # as in another process
        assert locate._compile_error("answer 1.h", (header.parent,)) is None
    assert asked == ["g++"]
    for _ in range(2):
        locate._compile_error.cache_clear()
        assert "absent.h" in str(locate._compile_error("missing.h", (header.parent,)))
    assert asked == ["g++"] * 3  # a package may be installed meanwhile
    header.write_text("#define ANSWER 43\n")
    os.utime(header, (2, 2))
    locate._compile_error.cache_clear()
    assert locate._compile_error("answer 1.h", (header.parent,)) is None
    assert len(asked) == 4
