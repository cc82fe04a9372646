"""Options of a C++ compiler, by which of its two steps they are for.

The driver puts code into a library by options of the compiler: GCC links `crtfastmath.o`, which
sets flush-to-zero for the process that loads it, where it is called with `-ffast-math`. So the
linker gets only what it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

#: How options begin that are the linker's alone.
LINKED = (
    "-l", "-L", "-Wl,", "-static", "-shared", "-rdynamic", "-fuse-ld=", "-Xlinker", "-B", "-z",
    "-framework", "-nostdlib", "-nodefaultlibs", "-nostartfiles", "-undefined",
)  # fmt: skip
#: Those of both: they stand for a library too, or for where all are.
BOTH = ("-fopenmp", "-pthread", "-fsanitize=", "--sysroot", "-stdlib=", "-fprofile", "--coverage",
        "-flto", "-m32", "-m64", "-target", "--target=", "-arch", "-isysroot")  # fmt: skip
#: Options whose argument may be the next word.
WITH_ARGUMENT = frozenset((
    "-l", "-L", "-I", "-D", "-U", "-B", "-u", "-x", "-z", "-include", "-imacros", "-isystem",
    "-iquote", "-idirafter", "-isysroot", "-Xlinker", "-Xpreprocessor", "-Xassembler", "-Xclang",
    "-mllvm", "-framework", "-arch", "-target", "--sysroot", "--param",
))  # fmt: skip
SOURCES = (".c", ".cc", ".cpp", ".cxx", ".c++", ".s")


@dataclass(frozen=True)
class Steps:
    """Options for compiling, options and libraries for linking, and sources among them."""

    compiling: tuple[str, ...]
    linking: tuple[str, ...]
    sources: tuple[str, ...]


def steps(options: Sequence[str]) -> Steps:
    """Options of one call of the compiler, for two."""
    compiling: list[str] = []
    linking: list[str] = []
    sources: list[str] = []
    words = iter(options)
    for word in words:
        if not word.startswith(("-", "@")):
            (sources if is_source(word) else linking).append(word)
            continue
        parts = [word, *([next(words, "")] if word in WITH_ARGUMENT else [])]
        if word.startswith((*LINKED, *BOTH)):
            linking += parts
        if not word.startswith(LINKED):
            compiling += parts
    return Steps(tuple(compiling), tuple(linking), tuple(sources))


def is_source(file: str) -> bool:
    """Whether it is compiled; what is not is linked."""
    return PurePath(file).suffix.lower() in SOURCES
