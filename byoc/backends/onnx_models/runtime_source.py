"""ONNX models in the constants of one C++ file, run by a runtime's library."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ...backend.backend import Code
from ...backend.onnx_file import OnnxModel
from ...backend.region import Region
from ...codegen.loading.resolve_apart import MARK
from ..onnx_operators.graph.element_types import DLPACK, WIDER
from .kept_runtime import runtime_text
from .model import model

FUNCTION = """static const ElementType %(symbol)s_types[] = {%(types)s};
static const Region %(symbol)s_region = {"%(symbol)s", %(k)d, %(inputs)d, %(results)d,
                                         %(symbol)s_types};
OPINFO_FUNCTION(%(symbol)s) { return OPINFO_RUNTIME(run)(&%(symbol)s_region, args, count); }
"""
START = """OPINFO_FUNCTION(__init_%s) { return OPINFO_RUNTIME(load)(args, result); }
OPINFO_FUNCTION(%s) __attribute__((weak));
OPINFO_FUNCTION(%s) { return 0; }
"""
TABLE = """static const char* const input_names[] = {%s};
static const char* const result_names[] = {%s};
OPINFO_LINKAGE const Models OPINFO_RUNTIME(table) = {%s, %d, input_names, result_names};
"""
#: The runtime's library is opened by its path, or else beside the compiled one.
BESIDE = "-Wl,-rpath,$ORIGIN"
#: How regions with float16 round: few operators have kernels of it.
HALF = "float16 is computed in float32, and not rounded between all operators"


def runtime_code(
    regions: Sequence[Region],
    runtime: str,
    library: Path,
    options: Sequence[str] = (),
    integers: bool = False,
    clamped: Callable[[Region], frozenset[int]] = lambda region: frozenset(),
) -> Code:
    """The C++ of all regions of a model.

    Args:
        regions: The regions.
        runtime: See `models_code`.
        library: The runtime's library on this machine.
        options: Options for the compiler.
        integers: Whether the runtime has operators for integer arithmetic.
        clamped: Returns the positions of the inputs that the runtime gets clamped to 2^24.
    """
    models = [
        OnnxModel(
            r.symbol, model(r, integers),
            tuple(f"x{k}" for k in range(len(r.inputs))),
            tuple(f"y{k}" for k in range(len(r.results))),
            tuple(t.dtype for t in (*r.inputs, *r.results)), clamped(r),
        )
        for r in regions
    ]  # fmt: skip
    rounds = tuple((r.symbol, HALF) for r in regions if _has_float16(r))
    return replace(models_code(models, runtime, library, options), rounds=rounds)


def models_code(
    models: Sequence[OnnxModel], runtime: str, library: Path, options: Sequence[str] = ()
) -> Code:
    """The C++ of some ONNX models.

    Args:
        models: The models. Of two models, one has the first names of the other.
        runtime: C++ with ``begin``, which opens all models, and ``run``, which calls one. It may
            use LIBRARY, MODELS (their number), INPUT_NAMES and RESULT_NAMES.
        library: The runtime's library on this machine.
        options: Options for the compiler.
    """
    symbols = tuple(m.symbol for m in models)
    names = (max(each, key=len) for each in (
        [m.inputs for m in models], [m.results for m in models]))  # fmt: skip
    table = TABLE % (*map(_names, names), json.dumps(str(library)), len(models))
    functions = (_function(m, k) for k, m in enumerate(models))
    before, words = runtime_text(runtime, table, ("-std=c++17", *options))
    source = "".join([before, *functions, START % (symbols[0], MARK, MARK)])
    contents = tuple((f"{m.symbol}_onnx", m.content) for m in models)
    return Code(source, symbols, contents, (*words, "-ldl", BESIDE))


def _has_float16(region: Region) -> bool:
    return any(t.dtype == "float16" for c in region.calls for t in c.results)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(_literal, names)) or "nullptr"


def _literal(text: str) -> str:
    """A string of C++ for a name that a file chooses: what may end it is written in octal."""
    return '"' + "".join(
        chr(b) if chr(b).isascii() and chr(b).isalnum() else f"\\{b:03o}"
        for b in text.encode(errors="surrogateescape")
    ) + '"'  # fmt: skip


def _function(model: OnnxModel, k: int) -> str:
    types = ((*(DLPACK | WIDER)[dtype], *(("true",) if k in model.clamped else ()))
             for k, dtype in enumerate(model.dtypes))  # fmt: skip
    return FUNCTION % {
        "symbol": model.symbol,
        "types": ", ".join(f"{{{', '.join(map(str, words))}}}" for words in types),
        "k": k,
        "inputs": len(model.inputs),
        "results": len(model.results),
    }
