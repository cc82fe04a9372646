"""image.resize2d and resize3d: the input sampled at ``c(y) = scale * y + shift`` on some axes.

The number of loads gives the method (1: nearest neighbour, 2 per axis: linear, 4 per axis: cubic),
the form of ``c`` the coordinate transformation, and the operation around it the rounding method:

- half_pixel ``(y + 0.5) * in / out - 0.5``, tf_half_pixel_for_nn the same without ``- 0.5``;
- asymmetric ``y * in / out``; align_corners ``y * (in - 1) / (out - 1)``; tf_crop_and_resize, see
  `analysis.recognise.vision._crop`;
- floor ``floor(c + 1e-5)``, ceil ``ceil(c - 1e-5)``, round_prefer_floor ``ceil(c - 0.5)``,
  round_prefer_ceil ``floor(c + 0.5)``; an integer ``y // k`` is asymmetric with floor.

pytorch_half_pixel differs from half_pixel only for an output extent of 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among, numbers
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE, CallTerm, Int, Load, Term
from ...terms.traversal import subterms
from .._forms.access_functions import dims
from ._crop import outside
from ._sampling import CROP, MODE, NEAREST, has_literal_weights, samplings

OP, OP3 = "relax.image.resize2d", "relax.image.resize3d"


def _match(method: str, mode: str, rounding: str, size: tuple[int, int], layout: str) -> Matches:
    shape = "float32[1, 3, 5, 7]" if layout == "NCHW" else "float32[2, 5, 7, 3]"
    attrs = {"size": size, "method": method, MODE: mode, "layout": layout}
    rounded = {"rounding_method": rounding} if method == NEAREST else {}
    return Matches(OP, (shape,), {**attrs, **rounded})


def _match3(method: str, mode: str, size: tuple[int, ...], layout: str) -> Matches:
    shape = "float32[1, 3, 5, 7, 8]" if layout == "NCDHW" else "float16[n, 5, 7, 8, 3]"
    return Matches(OP3, (shape,), {"size": size, "method": method, MODE: mode, "layout": layout})


def _cropped(
    data: str, size: tuple[Any, ...], method: str, roi: tuple[float, ...], outside: float
) -> Matches:
    attrs = {"size": size, "method": method, "roi": roi, MODE: CROP}
    return Matches(
        OP if len(size) == 2 else OP3, (data,), {**attrs, "extrapolation_value": outside}
    )


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
    Matches(OP, ("int8[1, 3, 5, n]",), {"size": (9, 4), "method": NEAREST}),
    Matches(OP, ("uint8[1, 5, 7, 3]",), {"size": (9, 4), "layout": "NHWC"}),
    Matches(OP, ("float32[1, 3, 5, 7, 4]",), {"size": (9, 4), "layout": "NCHW4c"}),
    _cropped("float32[1, 3, 5, 7]", (9, 4), NEAREST, (0.1, 0.2, 0.8, 0.9), 2.5),
    _cropped("float32[1, 3, 5, 7]", (9, 4), "linear", (0.0, 0.25, 1.0, 0.75), 0.0),
    _cropped("float32[1, 3, n, 7]", (9, 4), "linear", (0.1, 0.3, 0.7, 1.0), -1.0),
    _cropped("float16[1, 3, 5, 7]", ("m", 4), NEAREST, (0.1, 0.2, 0.8, 0.9), 0.0),
    _cropped("float32[1, 3, 5, 7, 8]", (4, 6, 9), NEAREST, (0.1, 0.2, 0.3, 0.7, 0.8, 0.9), 1.0),
    *(
        _match3(NEAREST, mode, (9, 4, 16), layout)
        for mode, layout in (
            ("half_pixel", "NCDHW"),
            ("align_corners", "NDHWC"),
            ("tf_half_pixel_for_nn", "NCDHW"),
        )
    ),
    _match3(NEAREST, "asymmetric", (10, 14, 16), "NDHWC"),
    *(_match3("linear", mode, (9, 4, 16), "NCDHW") for mode in ("half_pixel", "align_corners")),
    _match3("linear", "asymmetric", (9, 4, 16), "NDHWC"),
    _match3("cubic", "half_pixel", (9, 4, 16), "NCDHW"),
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


#: What coordinates, weights and regions are computed with.
_ARITHMETIC = frozenset({"add", "and", "cast", "ceil", "div", "eq0", "floor", "floordiv",
                         "floormod", "ge0", "ite", "le", "lt", "max", "min", "mul", "neg", "not",
                         "or", "round", "sub"})  # fmt: skip
_ROUNDED = among("rounding_method", ["", *ROUNDINGS], "only nearest_neighbor rounds")
_CUBIC = (
    *numbers(["cubic_alpha"], "only cubic has it"),
    *among("cubic_exclude", [0, 1], "only cubic has it"),
)
_OUTSIDE = numbers(["extrapolation_value"], "nothing is extrapolated")
#: The attributes that each method ignores.
UNSEEN = {
    NEAREST: (*_CUBIC, *_OUTSIDE),
    "linear": (*_ROUNDED, *_CUBIC, *_OUTSIDE),
    "cubic": (*_ROUNDED, *_OUTSIDE),
}


@recogniser("resize", precedence=345, ops=(OP, OP3))
def resize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Guess the attributes from the form of the sampling; the certificate decides."""
    (definition,) = expression.outputs[:1]
    loads = [term for term in subterms(definition.body) if isinstance(term, Load)]
    if len(expression.outputs) != 1 or not loads or len({x.tensor for x in loads}) != 1:
        return Refusal("the compute does not sample one input")
    load = loads[0]
    if len(definition.axes) not in (4, 5) or len(load.indices) != len(definition.axes):
        return Refusal("a resize has four or five dimensions")
    if not any(
        isinstance(term, CallTerm) and term.op in ("cast", "floordiv")
        for term in subterms(definition.body)
    ):
        return Refusal("no coordinate is computed")
    if _foreign(definition.body):
        return Refusal("a function is computed that no resize has")
    sampled = [k for k, i in enumerate(load.indices) if i is not definition.axes[k]]
    layouts = [layout for layout in _layouts(load) if all(layout[k] in "DHW" for k in sampled)]
    if not sampled or not layouts:
        return Refusal("the sampled axes are not two or three adjacent ones")
    taps = sum(load.tensor.shape[k] is not ONE for k in sampled)
    linear = len(loads) <= 2**taps or has_literal_weights(definition.body)
    method = NEAREST if len(loads) == 1 else "linear" if linear else "cubic"
    return [
        proposal
        for layout in layouts
        for proposal in _proposals(definition, load, layout, method, layouts)
    ]


def _foreign(body: Term) -> bool:
    """Whether a body cannot be a resize: each of the many samplings would be compared with it."""
    return any(isinstance(term, CallTerm) and term.op not in _ARITHMETIC for term in subterms(body))


def _layouts(load: Load) -> list[str]:
    """Layouts by rank; the last of five dimensions may be part of the channels."""
    if len(load.indices) == 4:
        return ["NCHW", "NHWC"]
    part = load.tensor.shape[4].const
    return ["NCDHW", "NDHWC", *([f"NCHW{part}c"] if part else [])]


def _proposals(
    definition: OutputDefinition, load: Load, layout: str, method: str, layouts: Sequence[str]
) -> Iterator[Proposal]:
    position, size = load.tensor.position, _size(definition, layout)
    places = [layout.index(a) for a in "DHW" if a in layout]
    same_size = [
        name
        for name in layouts
        if _size(definition, name) == size and ("D" in name) == ("D" in layout)
    ]
    notes = (*among("layout", same_size, "only what they agree on is sampled"), *UNSEEN[method])
    if outside(definition.body) is not None:
        notes = tuple(u for u in notes if u.attribute != "extrapolation_value")
    for extra in samplings(definition, load, method, places):
        attrs = {"size": size, "layout": layout, "method": method, **extra}
        names = {position: layout, definition.out.position: layout}
        op = OP3 if "D" in layout else OP
        yield Proposal(op, (position,), attrs, names, undetermined=notes)


def _size(definition: OutputDefinition, layout: str) -> tuple[int | Int, ...]:
    return dims(
        [
            definition.out.shape[k]
            for k, letter in enumerate(layout[: len(definition.axes)])
            if letter in "DHW"
        ]
    )
