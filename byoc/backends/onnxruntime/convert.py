"""Regions as ONNX models in the constants of one C++ file, each with its own session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from ...backend.backend import Code
from ...backend.region import Region
from ...codegen.abi import ABI
from .locate import available, library
from .model import model

FUNCTION = """OPINFO_FUNCTION(%(symbol)s) {
  return run("%(symbol)s", %(k)d, %(inputs)d, %(results)d, args, count, result);
}
"""
START = """OPINFO_FUNCTION(__init_%(first)s) {
  if (int code = models.load(args, result)) return code;
  return begin(%(path)s, %(count)d);
}
"""


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    shared = library()
    if shared is None:
        raise RuntimeError(available() or "ONNX Runtime is not installed")
    symbols = tuple(r.symbol for r in regions)
    named = tuple((f"{r.symbol}_onnx", np.frombuffer(model(r), "uint8")) for r in regions)
    functions = [
        FUNCTION
        % {
            "symbol": region.symbol,
            "k": k,
            "inputs": len(region.inputs),
            "results": len(region.results),
        }
        for k, region in enumerate(regions)
    ]
    runtime = (files(__package__) / "session.hpp").read_text(encoding="utf-8")
    start = START % {"first": symbols[0], "path": json.dumps(str(shared)), "count": len(regions)}
    return Code("".join([ABI, runtime, *functions, start]), symbols, named, ("-std=c++17", "-ldl"))
