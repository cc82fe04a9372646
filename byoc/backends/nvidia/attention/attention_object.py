"""The C++ that builds and runs cuDNN's plans of attention, as an object file.

It includes cuDNN's frontend, which takes g++ half a minute, and is the same for all models. So it
is compiled once for each version of the headers and the compiler, kept in the user's cache, and
linked into the library of each model, which stays one file.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from importlib.resources import files

from ....codegen.compilers.toolchain import CompilerError
from ....codegen.loading.cuda_device import no_gpu
from ...common.kept_object import kept_object, object_key
from ..libraries.locate import CUDNN, CUDNN_FRONTEND, options
from .halves import halves_kernel

#: Names in an object contain its key, as a library may have several.
HIDDEN = """#define OPINFO_LINKAGE extern "C" __attribute__((visibility("hidden")))
#define OPINFO_PLANS(name) opinfo_attention_%s_##name
"""
#: Names in front of the functions of a model.
OWN = """#define OPINFO_LINKAGE [[maybe_unused]] static
#define OPINFO_PLANS(name) opinfo_attention_##name
"""
#: What is compiled once: the functions that models call, the frontend, and the plans.
PLANS = ("attention_plans.h", "frontend_loader.h", "attention_plans.cpp")
#: The C++ of regions with attention, in its order.
REGION = ("sdpa.hpp", "attention_plan.hpp", "fused_attention.hpp", "attention.hpp")
#: Headers that say which versions are installed.
VERSIONS = ("cudnn_frontend.h", "cudnn_frontend_version.h", "cudnn_version.h", "nvrtc.h")


def attention_source() -> tuple[str, tuple[str, ...]]:
    """The C++ in front of regions with attention, and the options to compile and link it with.

    If nothing can be kept, the C++ contains the frontend.

    Raises:
        CompilerError: The frontend does not compile.
        RuntimeError: It is not installed.
    """
    region = halves_kernel.text("attention16.h") + halves_kernel.text("attention16.hpp")
    region += "".join(map(_text, REGION))
    functions, *plans = map(_text, PLANS)
    key = object_key(HIDDEN, functions, *plans, _versions(), *_words())
    declared = HIDDEN % key + functions
    try:
        made = _made(key, "".join([declared, *plans]), _words())
    except (OSError, RuntimeError) as error:
        if isinstance(error, CompilerError):
            raise
        return "".join([OWN, functions, *plans, region]), _words()
    if isinstance(made, CompilerError):
        raise made
    return declared + region, (*options(CUDNN), made, "-ldl")


@functools.cache
def begin_object() -> None:
    """On a machine with a GPU, compile the object in a thread while operators are still chosen.

    What fails is raised where code is generated, which waits for the thread by the object's lock.
    """
    if no_gpu() is None:
        threading.Thread(target=_attempt, name="attention object").start()


def _attempt() -> None:
    with contextlib.suppress(Exception):
        attention_source()


@functools.lru_cache(maxsize=4)
def _made(key: str, text: str, words: tuple[str, ...]) -> str | CompilerError:
    """The path of the object; an error of the compiler is known from then on."""
    try:
        return str(kept_object("cudnn_attention", f"plans-{key}", text,
                               (*words, "-fvisibility=hidden")))  # fmt: skip
    except CompilerError as error:
        return error


def _words() -> tuple[str, ...]:
    return options(CUDNN_FRONTEND)


def _versions() -> str:
    """The headers that contain versions."""
    folders = (*CUDNN_FRONTEND.includes(), *CUDNN.includes())
    paths = [folder / name for folder in folders for name in VERSIONS]
    return "".join(p.read_text("utf-8", "replace") for p in paths if p.exists())


def _text(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
