"""image.resize2d: the input sampled at ``c(y) = scale * y + shift`` on two axes.

The number of loads tells the method (1 nearest neighbour, 4 linear, 16 cubic), the form of ``c``
the coordinate transformation, the operation around it the rounding method:

- half_pixel ``(y + 0.5) * in / out - 0.5``, tf_half_pixel_for_nn the same without ``- 0.5``;
- asymmetric ``y * in / out``; align_corners ``y * (in - 1) / (out - 1)``;
- floor ``floor(c + 1e-5)``, ceil ``ceil(c - 1e-5)``, round_prefer_floor ``ceil(c - 0.5)``,
  round_prefer_ceil ``floor(c + 0.5)``; an integer ``y // k`` is asymmetric with floor.

pytorch_half_pixel differs from half_pixel only at an output extent of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..comprehension import Comprehension, Lifted
from ..op_info import Proposal, Refusal
from ..rewrite import subterms
from ..scalar import is_const
from ..term import ONE, Call, Const, Int, Load, Term
from ..undetermined import among, numbers
from . import Matches, Refuses, recogniser
from ._moves import dims

OP = "relax.image.resize2d"
MODE = "coordinate_transformation_mode"
NEAREST = "nearest_neighbor"
METHODS = {1: NEAREST, 2: "linear", 4: "linear", 16: "cubic"}


def _match(method: str, mode: str, rounding: str, size: tuple[int, int], layout: str) -> Matches:
    shape = "float32[1, 3, 5, 7]" if layout == "NCHW" else "float32[2, 5, 7, 3]"
    attrs = {"size": size, "method": method, MODE: mode, "layout": layout}
    rounded = {"rounding_method": rounding} if method == NEAREST else {}
    return Matches(OP, (shape,), {**attrs, **rounded})


ROUNDINGS = ("round", "floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
MATCHES = [
    _match(NEAREST, "asymmetric", "floor", (10, 14), "NCHW"),
    *(_match(NEAREST, "half_pixel", rounding, (9, 4), "NHWC") for rounding in ROUNDINGS),
    _match(NEAREST, "align_corners", "round", (9, 4), "NCHW"),
    _match(NEAREST, "tf_half_pixel_for_nn", "floor", (10, 14), "NCHW"),
    *(
        _match("linear", mode, "", (9, 14), layout)
        for mode in ("half_pixel", "align_corners", "asymmetric")
        for layout in ("NCHW", "NHWC")
    ),
    _match("linear", "pytorch_half_pixel", "", (9, 1), "NCHW"),
    _match("cubic", "half_pixel", "", (9, 4), "NCHW"),
    Matches(OP, ("float16[1, 3, n, m]",), {"size": (20, 30), "method": "linear"}),
    Matches(OP, ("float32[1, 3, n, m]",), {"size": (20, 30), MODE: "align_corners"}),
]

REFUSES = [
    Refuses(
        "nearest neighbour that starts one element late",
        """
@T.prim_func(s_tir=True)
def f(x: T.Buffer((1, 1, 4, 4), "float32"), out: T.Buffer((1, 1, 8, 8), "float32")):
    for i, j in T.grid(8, 8):
        out[0, 0, i, j] = x[0, 0, T.min((i + 1) // 2, 3), j // 2]
""",
    ),
]


_ROUNDED = among("rounding_method", ["", *ROUNDINGS], "only nearest_neighbor rounds")
_CUBIC = (
    *numbers(["cubic_alpha"], "only cubic has it"),
    *among("cubic_exclude", [0, 1], "only cubic has it"),
)
_OUTSIDE = numbers(["extrapolation_value"], "nothing is extrapolated")
#: What each method does not use.
UNSEEN = {
    NEAREST: (*_CUBIC, *_OUTSIDE),
    "linear": (*_ROUNDED, *_CUBIC, *_OUTSIDE),
    "cubic": (*_ROUNDED, *_OUTSIDE),
}


@recogniser("resize2d", precedence=345, ops=(OP,))
def resize2d(f: Lifted) -> Sequence[Proposal] | Refusal:
    """Guesses the attributes from the form of the sampling; the certificate decides."""
    (c,) = f.outputs[:1]
    loads = [s for s in subterms(c.body) if isinstance(s, Load)]
    if len(f.outputs) != 1 or not loads or len({x.tensor for x in loads}) != 1:
        return Refusal("the compute does not sample one input")
    x = loads[0]
    spatial = [k for k, i in enumerate(x.indices) if k >= len(c.axes) or i is not c.axes[k]]
    layouts = [s for s in ("NCHW", "NHWC") if set(spatial) <= {s.index("H"), s.index("W")}]
    if len(c.axes) != 4 or len(x.indices) != 4 or not spatial or not layouts:
        return Refusal("not one or two neighbouring axes of four are sampled")
    method = METHODS.get(len(loads))
    scaled = any(isinstance(s, Call) and s.op in ("cast", "floordiv") for s in subterms(c.body))
    if method is None or not scaled:
        return Refusal("no interpolation method reads so many elements")
    position = x.tensor.position
    found = []
    for layout in layouts:
        size = dims([c.out.shape[layout.index(a)] for a in "HW"])
        notes = (*among("layout", layouts, "only what they agree on is sampled"), *UNSEEN[method])
        for extra in _samplings(c, x, method):
            attrs = {"size": size, "layout": layout, "method": method, **extra}
            names = {position: layout, c.out.position: layout}
            found.append(Proposal(OP, (position,), attrs, names, undetermined=notes))
    return found


def _samplings(c: Comprehension, x: Load, method: str) -> Iterator[dict[str, object]]:
    """Coordinate transformations, roundings and cubic coefficients that fit the form."""
    terms = list(subterms(c.body))
    roundings = _roundings(terms) if method == NEAREST else [""]
    for mode in _modes(c, x, terms):
        for rounding in roundings:
            extra: dict[str, object] = {MODE: mode}
            if rounding:
                extra["rounding_method"] = rounding
            if method != "cubic":
                yield extra
                continue
            for alpha in _alphas(terms):
                for exclude in (0, 1):
                    yield {**extra, "cubic_alpha": alpha, "cubic_exclude": exclude}


def _modes(c: Comprehension, x: Load, terms: Sequence[Term]) -> list[str]:
    if not _calls(terms, "add", 0.5, "cast"):
        scaled = [_scaled(terms, i, o) for i, o in zip(x.tensor.shape, c.out.shape, strict=True)]
        return ["asymmetric"] if all(scaled) else ["align_corners"]
    if not _calls(terms, "sub", 0.5, "mul") and not _calls(terms, "sub", 0.5, "add"):
        return ["tf_half_pixel_for_nn"]
    plain = ["half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
    return ["pytorch_half_pixel", *plain] if ONE in c.out.shape[1:] else plain


def _scaled(terms: Sequence[Term], i: Int, o: Int) -> bool:
    """Whether ``in / out`` is the scale of an axis: a literal, a division, an integer or 1."""
    if i is o:
        return True
    if i.const is None or o.const is None:
        return any(isinstance(s, Call) and s.op == "cast" and s.args[0] in (i, o) for s in terms)
    whole = any(isinstance(s, Call) and s.op == "floordiv" for s in terms)
    return whole or _constants(terms, float(np.float32(i.const / o.const)))


def _roundings(terms: Sequence[Term]) -> list[str]:
    ops = {s.op for s in terms if isinstance(s, Call)}
    if "round" in ops:
        return ["round"]
    if "ceil" in ops:
        return ["ceil"] if _constants(terms, 1e-5) else ["round_prefer_floor"]
    small = _constants(terms, 1e-5) or "floor" not in ops
    return ["floor"] if small else ["round_prefer_ceil"]


def _alphas(terms: Sequence[Term]) -> list[float]:
    """Coefficients are negative; the usual ones first."""
    values = {float(s.value) for s in terms if isinstance(s, Const) and s.dtype != "str"}
    return sorted((v for v in values if -2 < v < 0), key=lambda v: (v not in (-0.75, -0.5), -v))


def _constants(terms: Sequence[Term], value: float) -> bool:
    return any(isinstance(s, Const) and abs(float(s.value) - value) < 1e-8 for s in terms)


def _calls(terms: Sequence[Term], op: str, value: float, inner: str) -> bool:
    """Whether ``op(value, inner(…))`` occurs, in any order of operands."""
    return any(
        isinstance(s, Call)
        and s.op == op
        and any(is_const(a, value) for a in s.args)
        and any(isinstance(a, Call) and a.op == inner for a in s.args)
        for s in terms
    )
