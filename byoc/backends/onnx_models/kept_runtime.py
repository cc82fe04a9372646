"""The C++ of a runtime as an object file, with which the libraries of all models are linked.

Compiling it takes a second, several times in a race of builds, and it is the same for all models.
It is kept in the user's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import tvm_ffi

from ...codegen.abi import ABI, EXPORTED
from ...codegen.compilers.toolchain import CompilerError
from ..common.kept_object import kept_object, object_key
from ..common.region_source import LOOPS

#: Optimisation as for debugging: calls spend their time in the runtime, and no loop of the rest is
#: over data. GCC inlines less there, so it has less code to optimise.
GLUE = "-Og"
#: Names in an object contain its key, as a library may have several.
HIDDEN = """#define OPINFO_LINKAGE extern "C" __attribute__((visibility("hidden")))
#define OPINFO_RUNTIME(name) opinfo_models_%s_##name
"""
#: Names if a model has the runtime in its own source.
OWN = """#define OPINFO_LINKAGE [[maybe_unused]] static
#define OPINFO_RUNTIME(name) opinfo_models_##name
"""
#: What an object takes from a model, and a model from an object.
TAKEN = "OPINFO_LINKAGE const Models OPINFO_RUNTIME(table);\n"
DECLARED = (
    TAKEN
    + """
OPINFO_LINKAGE int OPINFO_RUNTIME(run)(const Region* region, const TVMFFIAny* args, int32_t count);
OPINFO_LINKAGE int OPINFO_RUNTIME(load)(const TVMFFIAny* args, TVMFFIAny* result);
"""
)
#: The names that a runtime has for what the model tells.
NAMES = """
[[maybe_unused]] static const char* const& LIBRARY = OPINFO_RUNTIME(table).library;
[[maybe_unused]] static const size_t& MODELS = OPINFO_RUNTIME(table).count;
[[maybe_unused]] static const char* const* const& INPUT_NAMES = OPINFO_RUNTIME(table).inputs;
[[maybe_unused]] static const char* const* const& RESULT_NAMES = OPINFO_RUNTIME(table).results;
"""


def runtime_text(runtime: str, table: str, options: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The C++ before the functions of a model, and the options to compile and link it with.

    Without an object, as nothing can be kept or compiled, the C++ contains the whole runtime.

    Args:
        runtime: The C++ of the runtime.
        table: The C++ of what the model tells it.
        options: Options for the compiler.
    """
    made = _object(runtime, tuple(options))
    if made is None:
        text = OWN + ABI + _text("models.hpp") + table + _code(runtime)
        return text, tuple(options)
    key, file = made
    return HIDDEN % key + EXPORTED + _text("models.hpp") + DECLARED + table, (*options, file)


def _object(runtime: str, options: tuple[str, ...]) -> tuple[str, str] | None:
    """The key of an object and its path; None if there is none."""
    text = ABI + _text("models.hpp") + TAKEN + _code(runtime)
    words = [*options, GLUE, *(f"-I{path}" for path in tvm_ffi.libinfo.include_paths())]
    key = object_key(text, HIDDEN, *words, *_headers(options))
    try:
        return key, str(kept_object("runtimes", f"models-{key}", HIDDEN % key + text, words))
    except (CompilerError, OSError):
        return None


def _code(runtime: str) -> str:
    return (
        NAMES + _text("arguments.hpp") + LOOPS + _text("pools.hpp") + runtime + _text("entry.hpp")
    )


def _headers(options: tuple[str, ...]) -> list[str]:
    """When the folders of headers were changed: another version may have other ones."""
    folders = [Path(o.removeprefix("-I")) for o in options if o.startswith("-I")]
    return [str(folder.stat().st_mtime_ns) for folder in folders if folder.exists()]


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
