"""Operators that ONNX has, one case each, for the backends that read ONNX models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from opinfo.byoc import Backend, Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backend.region import Region

from .cases.elementwise import ELEMENTS
from .cases.images import IMAGES
from .cases.moves import MOVED
from .cases.onnx_case import OnnxCase
from .cases.reductions import REDUCED
from .cases.sequences import ORDERED


def recording() -> tuple[Backend, list[Region]]:
    """ONNX Runtime without code, and the regions that it is given."""
    regions: list[Region] = []

    def convert(converted: Sequence[Region]) -> Code:
        regions.extend(converted)
        return Code("", tuple(r.symbol for r in converted))

    return replace(find("onnxruntime"), convert=convert), regions


CASES = {**ELEMENTS, **IMAGES, **REDUCED, **MOVED, **ORDERED}


def module(cases: dict[str, OnnxCase]) -> Any:
    """All cases in one function; the results in order."""
    inputs = [c.parameters(f"x{k}") for k, c in enumerate(cases.values())]
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in inputs for v in vs]):
        with bb.dataflow():
            results = [c.build(bb.emit, np.random.default_rng(0), *vs)
                       for c, vs in zip(cases.values(), inputs, strict=True)]  # fmt: skip
            out = bb.emit_output(relax.Tuple(results))
        bb.emit_func_output(out)
    return bb.get()


def values(cases: dict[str, OnnxCase]) -> list[Any]:
    """The inputs of all cases; those of a case do not depend on the others."""
    seeds = {name: k for k, name in enumerate(CASES)}
    return [x for n, c in cases.items() for x in c.drawn(np.random.default_rng(seeds[n]))]
