"""The converter of each operator, and the C++ that reads what converters write."""

from __future__ import annotations

from ....prepare.integers import DEQUANTIZE, QUANTIZE
from .concat import concat
from .conv import CONV, CONV_TRANSPOSE, convolution
from .matmul import matmul
from .norm import layer_norm, softmax
from .pointwise import pointwise
from .pooling import GLOBAL, POOL, mean, pooling
from .quantised import quantised
from .recipe import Recipe
from .source import Converter, OneDnnFunction

#: Convolutions by Winograd, which take seconds to compile.
WINOGRAD = ("cpp/winograd_transforms.hpp", "cpp/winograd_tiles.hpp", "cpp/winograd.hpp")


def runtime(winograd: bool) -> tuple[str, ...]:
    """The C++ that reads recipes, with the forms by Winograd or without."""
    return ("cpp/tensors.hpp", "cpp/steps.hpp", "cpp/chains.hpp", "cpp/linear.hpp",
            *(WINOGRAD if winograd else ()), "cpp/forms.hpp", "cpp/kinds.hpp",
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
