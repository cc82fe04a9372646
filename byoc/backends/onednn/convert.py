"""Regions as one C++ file: a function for each, which all get their constants at load time."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.backend import Code
from ...backend.region import Region
from ...prepare.integers import DEQUANTIZE, QUANTIZE
from ..common.region_source import Constants, headers
from .locate import options
from .patterns import CONV, CONV_TRANSPOSE, GLOBAL, POOL
from .recipes.concat import concat
from .recipes.conv import convolution
from .recipes.matmul import matmul
from .recipes.norm import layer_norm, softmax
from .recipes.pointwise import pointwise
from .recipes.pooling import mean, pooling
from .recipes.quantised import quantised
from .recipes.recipe import Recipe
from .recipes.source import Converter, OneDnnFunction, function, start

#: The C++ that reads recipes.
RUNTIME = ("cpp/tensors.hpp", "cpp/steps.hpp", "cpp/chains.hpp", "cpp/forms.hpp", "cpp/kinds.hpp",
           "cpp/quantised.hpp", "cpp/recipe.hpp")  # fmt: skip

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


def recipe_of(frame: OneDnnFunction) -> Recipe:
    """What a region does."""
    small = frame.region.find(QUANTIZE, DEQUANTIZE) is not None
    converter = quantised if small else CONVERTERS.get(frame.region.calls[0].op, pointwise)
    return converter(frame)


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model."""
    constants = Constants()
    functions, rounds = [], []
    for region in regions:
        frame = OneDnnFunction(region, constants)
        functions.append(function(region, recipe_of(frame)))
        if frame.rounds:
            rounds.append((region.symbol, "; ".join(frame.rounds)))
    symbols = tuple(r.symbol for r in regions)
    runtime = headers(__package__, *RUNTIME, "cpp/functions.hpp")
    source = "".join([runtime, *functions, start(symbols)])
    return Code(source, symbols, constants.named(symbols[0]), options(), tuple(rounds))
