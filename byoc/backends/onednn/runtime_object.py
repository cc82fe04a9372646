"""The C++ that reads recipes as object files, which the libraries of all models are linked with.

Compiling it takes seconds, and it is the same for all models and for the program that answers which
implementations a region gets. It is compiled once for each version of oneDNN, compiler and CPU, and
kept in the user's cache. Loops over data are an object of their own, as they need optimisation, and
what reads recipes needs the standard library: optimised alike, both together take twice as long.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import tvm_ffi

from ...codegen.compilers.toolchain import CompilerError
from ..common.kept_object import kept_object
from ..common.kept_object import object_key as digest
from ..common.region_source import LARGE_PAGES, TEAM, THREADS, headers
from .locate import glue_options, options, version
from .recipes.converters import INTERFACE, LOOPS, runtime

#: Names in an object contain its key, as a library may have several.
HIDDEN = """#define OPINFO_LINKAGE extern "C" __attribute__((visibility("hidden")))
#define OPINFO_RUNTIME(name) opinfo_onednn_%s_##name
"""
#: What precedes the runtime.
SHARED = LARGE_PAGES + THREADS
#: Names in front of the functions of a model.
OWN = """#define OPINFO_LINKAGE [[maybe_unused]] static
#define OPINFO_RUNTIME(name) opinfo_onednn_##name
"""


def shared_text(own: bool) -> tuple[str, tuple[str, ...]]:
    """The C++ before the functions of a model, and the options to compile and link them.

    Without an object, as nothing can be kept or compiled, the C++ contains the whole runtime.

    Args:
        own: Whether a region needs loops of our own.
    """
    model = (files(__package__) / "cpp/model.hpp").read_text(encoding="utf-8")
    try:
        key, objects = runtime_objects()
    except (CompilerError, OSError):
        loops = _files(INTERFACE, *LOOPS) if own else ""
        text = SHARED + loops + headers(__package__, *runtime(own), "cpp/functions.hpp")
        return OWN + text + model, (*options(), TEAM)
    return HIDDEN % key + model, (*options(), TEAM, *map(str, objects))


def runtime_objects() -> tuple[str, tuple[Path, ...]]:
    """The key of the objects and their files, from the cache or compiled now.

    Raises:
        CompilerError: It does not compile.
        OSError: Neither the cache nor a temporary folder can be written.
    """
    key = object_key()
    hidden = HIDDEN % key
    return key, (
        kept_object("onednn", f"runtime-{key}", hidden + _text(), _words()),
        kept_object("onednn", f"loops-{key}", hidden + _files(INTERFACE, *LOOPS), options()),
    )


def object_key() -> str:
    """A digest of the objects: their sources, the compiler, and options with the library's path."""
    return digest(_text(), _files(*LOOPS), HIDDEN, version(), *options(), *_words())


def _text() -> str:
    program = (f"cpp/{name}" for name in ("probe_jobs.hpp", "probe_race.hpp", "probe.cpp"))
    return SHARED + headers(__package__, *runtime(True), "cpp/functions.hpp", *program)


def _files(*names: str) -> str:
    return "".join((files(__package__) / name).read_text(encoding="utf-8") for name in names)


def _words() -> list[str]:
    """The compiler's options for what reads recipes."""
    return [*glue_options(), *(f"-I{path}" for path in tvm_ffi.libinfo.include_paths())]
