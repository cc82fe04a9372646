"""Faults in the code of a backend, in C++ and in the compiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvm.support import cc

from opinfo.byoc import Backend, Code, Region
from opinfo.byoc.codegen.compilers import toolchain

from .injected_case import ALL, MARK, Case
from .victim import PLAIN, VICTIM, changed


def _code(failure: str, *names: str, loses: frozenset[str] = frozenset([VICTIM]),
          **changes: Any) -> Case:  # fmt: skip
    def change(code: Code, region: Region) -> Code:
        fields = {k: v(code, region) if callable(v) else v for k, v in changes.items()}
        return replace(code, **fields)

    return Case("code", failure, lambda folder: [changed(change)], loses, ("plain", *names))


def _adds(text: str) -> Callable[[Code, Region], str]:
    return lambda code, r: code.source + text.replace("SYMBOL", r.symbol)


def _replaces(old: str, new: str) -> Callable[[Code, Region], str]:
    def change(code: Code, region: Region) -> str:
        head, tail = code.source.split(f"static void {region.symbol}_(", 1)
        body, after = tail.split(f"OPINFO_TYPED({region.symbol}", 1)
        body = body.replace(old, new)
        return f"{head}static void {region.symbol}_({body}OPINFO_TYPED({region.symbol}{after}"

    return change


def _begins(code: Code, region: Region) -> str:
    """Add an initialiser, named after the first region, that fails at load time."""
    fails = f'return opinfo::fail("ValueError", "{MARK}");'
    return f"{code.source}\nOPINFO_FUNCTION(__init_{code.symbols[0]}) {{ {fails} }}\n"


#: What a library does when it is loaded.
LOADING = {
    "aborts": "abort()",
    "crashes": "*(volatile int*)8 = 1",
    "exits": "_exit(3)",
    "exits with 0": "exit(0)",
    "exits at once with 0": "_exit(0)",
    "rounds upwards": "fesetround(FE_UPWARD)",
    "hangs": "for (;;) usleep(1000)",
}


def code_cases() -> Iterator[Case]:
    yield _code("has no symbols", "symbols", symbols=())
    yield _code("has symbols that are a string", "symbols", symbols="plain")
    yield _code("has no source", "source", source=None)
    yield _code("has bytes for source", "source", source=b"int x;")
    yield _code("has an option that is a number", "options", options=(3,))
    yield _code("has a constant that is None", "constants", constants=(("w", None),))
    yield _code("has a constant without a name", "constants", constants=("w",))
    yield _code("has an option that is unknown", MARK, options=(f"-f{MARK}",))
    yield _code("needs a library that is not there", MARK, options=(f"-l{MARK}",))
    yield _code("includes a file that is not there", MARK,
                source=_adds(f'\n#include "{MARK}.h"\n'))  # fmt: skip
    yield _code("is not C++", MARK, source=_adds(f"\n{MARK} SYMBOL in Fortran;\n"))
    yield _code(
        "is cut",
        "error",
        source=lambda code, region: code.source[: code.source.rindex(region.symbol)],
    )
    yield _code("has a static assertion that fails", MARK,
                source=_adds(f'\nstatic_assert(sizeof(int) == 0, "{MARK}");\n'))  # fmt: skip
    yield _code("has an #error", MARK, source=_adds(f"\n#error {MARK}\n"))
    yield _code("calls what no library has", MARK, source=_adds(
        f'\nextern "C" int {MARK}(); int SYMBOL_more() {{ return {MARK}(); }}\n'))  # fmt: skip
    yield _code(
        "exports another name",
        "Cannot find",
        source=lambda code, region: code.source.replace(
            f"OPINFO_TYPED({region.symbol},", f"OPINFO_TYPED({MARK},"
        ),
    )
    yield _code("exports a name twice", "redefinition", source=_adds(
        "\nOPINFO_FUNCTION(SYMBOL) { return 0; }\n"))  # fmt: skip
    yield _code("takes one tensor too few", "takes 2 tensors but is called with 3",
                source=_replaces("const DLTensor* x1, const DLTensor* out) {",
                                 "const DLTensor* out) { const DLTensor* x1 = out;"))  # fmt: skip
    for how, ends in LOADING.items():
        begins = f"__attribute__((constructor)) static void SYMBOL_begin() {{ {ends}; }}\n"
        text = f"\n#include <cfenv>\n#include <cstdlib>\n#include <unistd.h>\n{begins}"
        yield _code(f"{how} when it is loaded", "library", source=_adds(text))
    more = _replaces("const DLTensor* out", "const DLTensor* y, const DLTensor* out")
    yield _code("takes one tensor too many", "takes 4 tensors but is called with 3", source=more)
    yield _code(
        "refuses its constants",
        MARK,
        constants=(("w", __import__("numpy").ones(3)),),
        source=_begins,
    )


def _compiler(script: str) -> Callable[[Path], Sequence[Backend]]:
    def arrange(folder: Path) -> Sequence[Backend]:
        tool = folder / "g++"
        real = cc.get_cc()
        tool.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
        tool.chmod(0o755)
        os.environ["CXX"] = str(tool)
        toolchain.SECONDS = 8.0
        return [changed(lambda code, r: replace(code, source=f"{code.source}\n// {MARK}\n"))]

    return arrange


#: For the victim's source only.
ONLY = 'if grep -qs "// injected" $(printf "%s\\n" "$@" | grep "\\.cc$"); then {}; fi'


#: What the compiler does, and the expected message for one region and for all.
TOOLS: dict[str, tuple[str, ...]] = {
    "exits with 1": ("exit 1", "status 1"),
    "says an error": ("echo 'lib0.cc:7:3: error: injected' >&2; exit 1", "error: injected"),
    "says it in bytes": ("printf '\\377\\376 error: injected\\n' >&2; exit 1", "error: injected"),
    "is killed": ("kill -9 $$", "SIGKILL"),
    "crashes": ("kill -SEGV $$", "SIGSEGV"),
    "hangs": ("sleep 100", "exceeded"),
    "writes nothing": ("exit 0", "wrote no file"),
    "writes no library": (
        'while [ "$1" != "-o" ]; do shift; done; echo injected > "$2"; exit 0',
        "does not link", "load"),
}  # fmt: skip


def compiler_cases() -> Iterator[Case]:
    for name, (script, *said) in TOOLS.items():
        yield Case("compiler of one region", name, _compiler(ONLY.format(script)),
                   names=("plain", said[0]))  # fmt: skip
        yield Case("compiler", name, _compiler(script), ALL, (said[-1],), True)
    yield Case("compiler", "is not there", _missing, ALL, ("compiler",), True)


def _missing(folder: Path) -> Sequence[Backend]:
    os.environ.pop("CXX", None)
    os.environ["PATH"] = str(folder)
    return [PLAIN]
