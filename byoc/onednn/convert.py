"""Regions as one C++ file: a function for each, the constants given to all at load time."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ..backend import Code
from ..region import Region
from .concat import concat
from .conv import convolution
from .locate import options
from .matmul import matmul
from .norm import layer_norm, softmax
from .patterns import CONV, CONV_TRANSPOSE, GLOBAL, POOL
from .pointwise import pointwise
from .source import Constants, Converter, Frame, function, start
from .window import mean, pooling

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
        frame = Frame(r, constants)
        functions.append(function(r, CONVERTERS.get(r.calls[0].op, pointwise)(frame)))
        if frame.rounds:
            rounds.append((r.symbol, "; ".join(frame.rounds)))
    symbols = tuple(r.symbol for r in regions)
    named = tuple((f"{symbols[0]}_constant_{k}", a) for k, a in enumerate(constants.arrays))
    runtime = (files(__package__) / "runtime.hpp").read_text(encoding="utf-8")
    source = "".join([runtime, *functions, start(symbols)])
    return Code(source, symbols, named, options(), tuple(rounds))
