"""Regions as one C++ file: a function for each, the constants given to all at load time."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ...backend.backend import Code
from ...backend.region import Region
from ...prepare.integers import DEQUANTIZE, QUANTIZE
from .concat import concat
from .conv import convolution
from .locate import options
from .matmul import matmul
from .norm import layer_norm, softmax
from .patterns import CONV, CONV_TRANSPOSE, GLOBAL, POOL
from .pointwise import pointwise
from .pooling import mean, pooling
from .quantised import quantised
from .source import Constants, Converter, OneDnnFunction, function, start

CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys((*CONV, *CONV_TRANSPOSE), convolution),
    **dict.fromkeys((*POOL, *GLOBAL), pooling),
    "relax.concat": concat,
    "relax.matmul": matmul,
    "relax.mean": mean,
    "relax.nn.softmax": softmax,
    "relax.nn.log_softmax": softmax,
    "relax.nn.layer_norm": layer_norm,
}


def convert(regions: Sequence[Region]) -> Code:
    """The source of all regions of a model."""
    constants = Constants()
    functions, rounds = [], []
    for r in regions:
        frame = OneDnnFunction(r, constants)
        small = r.find(QUANTIZE, DEQUANTIZE) is not None
        converter = quantised if small else CONVERTERS.get(r.calls[0].op, pointwise)
        functions.append(function(r, converter(frame)))
        if frame.rounds:
            rounds.append((r.symbol, "; ".join(frame.rounds)))
    symbols = tuple(r.symbol for r in regions)
    named = tuple((f"{symbols[0]}_constant_{k}", a) for k, a in enumerate(constants.arrays))
    small = any(r.find(QUANTIZE, DEQUANTIZE) for r in regions)
    headers = ["runtime.hpp", *["quantised.hpp"] * small]
    runtime = [(files(__package__) / h).read_text(encoding="utf-8") for h in headers]
    source = "".join([*runtime, *functions, start(symbols)])
    return Code(source, symbols, named, options(), tuple(rounds))
