"""The converter of each operator, and the C++ that reads what converters write."""

from __future__ import annotations

from .....analysis.composites.products import TRANSPOSED_MATMUL
from ....prepare.integers import DEQUANTIZE, QUANTIZE
from ...common.attention_region import is_attention
from .attention import attention
from .concat import concat
from .conv import CONV, CONV_TRANSPOSE, convolution
from .matmul import matmul
from .norm import layer_norm, rms_norm, softmax
from .pointwise import pointwise
from .pooling import GLOBAL, POOL, mean, pooling
from .quantized_regions import quantized
from .recipe import Recipe
from .source import Converter, OneDnnFunction

#: What the loops of our own and their callers know of each other, and the loops.
INTERFACE = "cpp/loops/interface.hpp"
LOOPS = tuple(f"cpp/loops/{name}.hpp" for name in (
    "vectors", "tile_products", "strip_products", "streamed_panels", "rms_rows", "tangent_elements",
    "winograd_transforms", "winograd_tiles", "winograd_pictures", "winograd_products",
    "attention_tiles", "attention_rows", "race_tensors",
))  # fmt: skip
#: Steps, and forms of products and convolutions, with such loops.
OWN_STEPS = ("cpp/own/threads.hpp", "cpp/own/tangents.hpp")
OWN_FORMS = tuple(f"cpp/own/{name}.hpp" for name in (
    "streamed", "tiled", "winograd_axes", "winograd",
))  # fmt: skip
#: Kinds of regions with such loops.
OWN_KINDS = tuple(f"cpp/own/{name}.hpp" for name in ("masked_keys", "attention", "rms_norm"))


def runtime(own: bool) -> tuple[str, ...]:
    """The C++ that reads recipes, with calls of loops of our own or without."""
    return ("cpp/primitives.hpp", "cpp/tensors.hpp", "cpp/steps.hpp",
            *((INTERFACE, *OWN_STEPS) if own else ()), "cpp/chains.hpp", "cpp/linear.hpp",
            *(OWN_FORMS if own else ()), "cpp/forms.hpp", "cpp/kinds.hpp",
            *(OWN_KINDS if own else ()), "cpp/quantized.hpp", "cpp/recipe.hpp")  # fmt: skip


def has_own_loops(recipe: str, form: str) -> bool:
    """Whether a recipe in a form needs loops of our own."""
    own = recipe.startswith(("attention ", "rms_norm ")) or "tanh" in recipe
    return own or any(name in form for name in ("winograd", "streamed", "tiled"))


CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys((*CONV, *CONV_TRANSPOSE), convolution),
    **dict.fromkeys((*POOL, *GLOBAL), pooling),
    "relax.concat": concat,
    "relax.matmul": matmul,
    TRANSPOSED_MATMUL: matmul,
    "relax.mean": mean,
    "relax.nn.softmax": softmax,
    "relax.nn.log_softmax": softmax,
    "relax.nn.layer_norm": layer_norm,
    "relax.nn.rms_norm": rms_norm,
}


def recipe_of(frame: OneDnnFunction) -> Recipe:
    """What a region does."""
    if is_attention(frame.region):
        return attention(frame)
    small = frame.region.find(QUANTIZE, DEQUANTIZE) is not None
    converter = quantized if small else CONVERTERS.get(frame.region.calls[0].op, pointwise)
    return converter(frame)
