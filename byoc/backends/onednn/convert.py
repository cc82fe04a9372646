"""Regions as one C++ file: a function for each, which all get their constants at load time."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.backend import Code
from ...backend.region import Region
from ...prepare.integers import DEQUANTIZE, QUANTIZE
from ..common.region_source import Constants, headers
from .concat import concat
from .conv import convolution
from .locate import options
from .matmul import matmul
from .norm import layer_norm, softmax
from .patterns import CONV, CONV_TRANSPOSE, GLOBAL, POOL
from .pointwise import pointwise
from .pooling import mean, pooling
from .quantised import quantised
from .source import Converter, OneDnnFunction, function, start

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
    """The C++ of all regions of a model."""
    constants = Constants()
    functions, rounds = [], []
    for region in regions:
        frame = OneDnnFunction(region, constants)
        small = region.find(QUANTIZE, DEQUANTIZE) is not None
        converter = quantised if small else CONVERTERS.get(region.calls[0].op, pointwise)
        functions.append(function(region, converter(frame)))
        if frame.rounds:
            rounds.append((region.symbol, "; ".join(frame.rounds)))
    symbols = tuple(r.symbol for r in regions)
    small = any(r.find(QUANTIZE, DEQUANTIZE) for r in regions)
    runtime = headers(__package__, "runtime.hpp", *["quantised.hpp"] * small)
    source = "".join([runtime, *functions, start(symbols)])
    return Code(source, symbols, constants.named(symbols[0]), options(), tuple(rounds))
