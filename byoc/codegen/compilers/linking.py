"""Options of a C++ compiler, split by compiling and linking.

With some compiler options the driver links extra code: with `-ffast-math`, GCC links
`crtfastmath.o`, which sets flush-to-zero in the process that loads the library. So the linker gets
only the options that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

#: Prefixes of options for the linker only.
LINKED = (
    "-l", "-L", "-Wl,", "-static", "-shared", "-rdynamic", "-fuse-ld=", "-Xlinker", "-B", "-z",
    "-framework", "-nostdlib", "-nodefaultlibs", "-nostartfiles", "-undefined",
)  # fmt: skip
#: Prefixes of options for both steps: they also imply a library or a search path.
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
class LinkSteps:
    """Options for compiling, options and libraries for linking, and sources among them."""

    compiling: tuple[str, ...]
    linking: tuple[str, ...]
    sources: tuple[str, ...]


def steps(options: Sequence[str]) -> LinkSteps:
    """The options of one call of the compiler, split into two calls."""
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
    return LinkSteps(tuple(compiling), tuple(linking), tuple(sources))


def is_source(file: str) -> bool:
    """Whether a file is compiled; all others are linked."""
    return PurePath(file).suffix.lower() in SOURCES
