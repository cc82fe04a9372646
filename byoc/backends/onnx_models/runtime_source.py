"""Regions as ONNX models in the constants of one C++ file, run by a runtime's library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ...backend.backend import Code
from ...backend.region import Region
from ...codegen.abi import ABI
from ...codegen.loading.resolve_apart import MARK
from ..onnx_operators.graph.element_types import DLPACK
from .model import model

FUNCTION = """static const ElementType %(symbol)s_types[] = {%(types)s};
static const Region %(symbol)s_region = {"%(symbol)s", %(k)d, %(inputs)d, %(results)d,
                                         %(symbol)s_types};
OPINFO_FUNCTION(%(symbol)s) { return run(%(symbol)s_region, args, count); }
"""
START = """OPINFO_FUNCTION(__init_%s) {
  if (int code = models.load(args, result)) return code;
  return begin();
}
OPINFO_FUNCTION(%s) __attribute__((weak));
OPINFO_FUNCTION(%s) { return 0; }
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
) -> Code:
    """The C++ of all regions of a model.

    Args:
        regions: The regions.
        runtime: C++ with ``begin``, which opens all models, and ``run``, which calls one. It may
            use LIBRARY, MODELS (their number), INPUT_NAMES and RESULT_NAMES.
        library: The runtime's library on this machine.
        options: Options for the compiler.
        integers: Whether the runtime has operators for integer arithmetic.
    """
    symbols = tuple(r.symbol for r in regions)
    models = tuple((f"{r.symbol}_onnx", model(r, integers)) for r in regions)
    shared = (files(__package__) / "arguments.hpp").read_text(encoding="utf-8")
    most = {"INPUT": max(len(r.inputs) for r in regions),
            "RESULT": max(len(r.results) for r in regions)}  # fmt: skip
    constants = [
        f"static const char* const LIBRARY = {json.dumps(str(library))};\n"
        f"static const size_t MODELS = {len(regions)};\n",
        *(_names(kind, letter, most[kind]) for kind, letter in (("INPUT", "x"), ("RESULT", "y"))),
    ]
    functions = (_function(region, k) for k, region in enumerate(regions))
    source = "".join(
        [ABI, shared, *constants, runtime, *functions, START % (symbols[0], MARK, MARK)]
    )
    rounds = tuple((r.symbol, HALF) for r in regions if _has_float16(r))
    return Code(source, symbols, models, ("-std=c++17", "-ldl", BESIDE, *options), rounds)


def _has_float16(region: Region) -> bool:
    return any(t.dtype == "float16" for c in region.calls for t in c.results)


def _names(kind: str, letter: str, count: int) -> str:
    texts = ", ".join(f'"{letter}{k}"' for k in range(count))
    return f"[[maybe_unused]] static const char* const {kind}_NAMES[] = {{{texts or 'nullptr'}}};\n"


def _function(region: Region, k: int) -> str:
    types = (DLPACK[t.dtype] for t in (*region.inputs, *region.results))
    return FUNCTION % {
        "symbol": region.symbol,
        "types": ", ".join(f"{{{code}, {bits}}}" for code, bits in types),
        "k": k,
        "inputs": len(region.inputs),
        "results": len(region.results),
    }
