"""The C++ that reads recipes as an object file, which the libraries of all models are linked with.

Compiling it takes seconds, and it is the same for all models and for the program that answers which
implementations a region gets. It is compiled once for each version of oneDNN, compiler and CPU, and
kept in the user's cache.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import tvm_ffi

from ...codegen.compilers.toolchain import CompilerError
from ..common.kept_object import kept_object
from ..common.kept_object import object_key as digest
from ..common.region_source import LARGE_PAGES, TEAM, THREADS, headers
from .locate import options, version
from .recipes.converters import runtime

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
        key, file = runtime_object()
    except (CompilerError, OSError):
        text = SHARED + headers(__package__, *runtime(own), "cpp/functions.hpp")
        return OWN + text + model, (*options(), TEAM)
    return HIDDEN % key + model, (*options(), TEAM, str(file))


def runtime_object() -> tuple[str, Path]:
    """The key of the object and its file, from the cache or compiled now.

    Raises:
        CompilerError: It does not compile.
        OSError: Neither the cache nor a temporary folder can be written.
    """
    key = object_key()
    return key, kept_object("onednn", f"runtime-{key}", HIDDEN % key + _text(), _words())


def object_key() -> str:
    """A digest of the object: its source, the compiler, and the options with the library's path."""
    return digest(_text(), HIDDEN, version(), *_words())


def _text() -> str:
    program = (f"cpp/{name}" for name in ("probe_jobs.hpp", "probe_race.hpp", "probe.cpp"))
    return SHARED + headers(__package__, *runtime(True), "cpp/functions.hpp", *program)


def _words() -> list[str]:
    """The compiler's options."""
    return [*options(), *(f"-I{path}" for path in tvm_ffi.libinfo.include_paths())]
