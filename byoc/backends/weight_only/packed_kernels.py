"""The C++ that regions with packed weights share: the kernels, and one file for all regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files

from ....analysis.composites.products import TRANSPOSED_MATMUL
from ...backend.backend import Code
from ...backend.region import Region, Tensor
from ...codegen.abi import ABI
from ...codegen.host_target import flags
from ..common.epilogue import statements
from ..common.region_source import LARGE_PAGES, TEAM, THREADS, VIEWS, Constants, ints
from .weight_panels import Panels

PRODUCTS = ("relax.matmul", "relax.einsum", TRANSPOSED_MATMUL)
HEADERS = ("packed_weights", "shapes", "panels", "digits", "limbs", "operands", "dense", "unpacked",
           "product")  # fmt: skip
TYPES = {"float32": "float", "float16": "uint16_t"}
BITS = {"float32": 32, "float16": 16}
#: Instructions that the kernels use, if the CPU has all of a group.
GROUPS = (
    ("avx2", "fma", "f16c"),
    ("avx512f", "avx512vl", "avx512bw", "avx512dq"),
    ("avx512vnni",),
)
#: The library of the threads; a linker may leave out one whose functions are used weakly.
GOMP = ("-Wl,--push-state,--no-as-needed", "-lgomp", "-Wl,--pop-state")
#: The operators after a product, on a row of it.
FINISH = """
static void %s(float* out, const float* const* p, const int64_t* s, int64_t n) {
  using T = float;
  for (int64_t j = 0; j < n; ++j) {
    T v = out[j];
    %s
    out[j] = v;
  }
}
"""
LIMBS = "activations are rounded to 24 bits below the largest value of their block of at most 128"
EXACT = "weights are not rounded to float16 before they are multiplied"
HALF = "float16 is computed in float32, and rounded once"


def code_of(
    regions: Sequence[Region], function: Callable[[Region, Constants], str], using: str,
    rounding: Callable[[Region], str], own: Sequence[str] = (),
) -> Code:  # fmt: skip
    """Return the C++ of all regions of a model.

    Args:
        regions: The regions, at least one.
        function: Returns the C++ of one, and adds its constants.
        using: The C++ between the kernels and the functions.
        rounding: Returns how a region rounds differently from its operators.
        own: The C++ of further kernels.
    """
    constants = Constants()
    functions = [function(r, constants) for r in regions]
    symbols = tuple(r.symbol for r in regions)
    start = f"OPINFO_CONSTANTS({symbols[0]}, weights)\n"
    source = "".join([ABI, "#if defined(__AVX__)\n#include <immintrin.h>\n#endif\n", VIEWS,
                      LARGE_PAGES, THREADS, *kernel_headers(), *own, using, *functions,
                      start])  # fmt: skip
    rounds = tuple((r.symbol, text) for r in regions if (text := rounding(r)))
    return Code(source, symbols, constants.named(symbols[0]), (*options(), TEAM), rounds)


def views_of(region: Region, constants: Constants) -> Callable[[Tensor], str]:
    """Return a function that returns the C++ of a tensor; it adds those that are constants."""
    numbers: dict[int, int] = {}

    def view(tensor: Tensor) -> str:
        k = tensor.index
        if tensor.source == "constant":
            if k not in numbers:
                numbers[k] = constants.add(region.constants[k])
            return f"constant({numbers[k]})"
        return f"t[{tensor.index}]"

    return view


def product_fields(
    region: Region, left: Tensor, view: Callable[[Tensor], str]
) -> dict[str, object]:
    """Return the fields that the C++ functions of all products have.

    Args:
        region: The region of the product and of the operators after it.
        left: Its left operand.
        view: Returns the C++ of a tensor.
    """
    others: list[Tensor] = []
    epilogue = statements(region.calls[product_of(region) + 1 :], others)
    name = f"{region.symbol}_finish"
    return {
        "symbol": region.symbol,
        "finish": FINISH % (name, "\n    ".join(epilogue)) if epilogue else "",
        "name": name if epilogue else "nullptr",
        "left": view(left),
        "others": ", ".join([*map(view, others), "View{}"]),
        "number": len(others),
        "half": ints([*(o.dtype == "float16" for o in others), 0]),
        "x": TYPES[left.dtype],
        "y": TYPES[region.result.dtype],
    }


def panels_in_cpp(panels: Panels, constants: Constants) -> str:
    """Return the C++ of packed weights, in braces; their arrays become constants."""
    sizes = (panels.depth, panels.columns, panels.group, panels.block, panels.part, panels.blocks,
             panels.offset)  # fmt: skip
    arrays = (panels.data, panels.scales, panels.zeros)
    pointers = ("nullptr" if a is None else f"packed_weights[{constants.add(a)}]" for a in arrays)
    return f"{{{ints(sizes)}, {', '.join(pointers)}}}"


def kernels_of(panels: Panels) -> str:
    """Return the C++ of the kernels that read packed weights."""
    return f"kernels<{panels.bits}, {TYPES[str(panels.scales.dtype)]}>"


def product_of(region: Region) -> int:
    """The number of the call that is the product."""
    return next(k for k, c in enumerate(region.calls) if c.op in PRODUCTS)


def kernel_headers() -> list[str]:
    """The C++ of the kernels; it follows `LARGE_PAGES` and `THREADS`."""
    here = files(__package__) / "cpp"
    return [(here / f"{name}.hpp").read_text(encoding="utf-8") for name in HEADERS]


def options() -> tuple[str, ...]:
    """The compiler options for the CPU that code is built for."""
    present = flags()
    taken: list[str] = []
    for group in GROUPS:
        if not present.issuperset(group):
            break
        taken += [f"-m{name}" for name in group]
    return ("-std=c++17", "-O2", "-fno-math-errno", "-ffp-contract=fast", *taken, *GOMP)


def has_limbs() -> bool:
    """Whether the kernels split activations into digits."""
    return flags().issuperset(GROUPS[0])
