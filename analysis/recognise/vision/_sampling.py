"""How a resize samples, by the form of its coordinates: see `analysis.recognise.vision.resize`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ...lifting.effects.tensor_expression import OutputDefinition
from ...terms.term import ONE, CallTerm, Const, Int, Load, Term
from ...terms.term.literals import is_const
from ...terms.traversal import subterms
from ._crop import outside, regions

FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
MODE, CROP = "coordinate_transformation_mode", "tf_crop_and_resize"
NEAREST = "nearest_neighbor"
MODES = ("half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn")


def samplings(
    definition: OutputDefinition, load: Load, method: str, places: Sequence[int]
) -> Iterator[dict[str, object]]:
    """Coordinate transformations, roundings and cubic coefficients that fit the form."""
    terms = list(subterms(definition.body))
    roundings = _roundings(terms) if method == NEAREST else [""]
    for transformation, rounding in product(
        _transformations(definition, load, terms, places), roundings
    ):
        extra = {**transformation, "rounding_method": rounding} if rounding else transformation
        if method != "cubic":
            yield extra
            continue
        for alpha, exclude in product(_alphas(terms), (0, 1)):
            yield {**extra, "cubic_alpha": alpha, "cubic_exclude": exclude}


def _transformations(
    definition: OutputDefinition, load: Load, terms: Sequence[Term], places: Sequence[int]
) -> Iterator[dict[str, object]]:
    """The coordinate transformations, with their region and the value outside it."""
    value = outside(definition.body)
    if value is None:
        for mode in _modes(definition, load, terms):
            yield {MODE: mode}
        return
    # for three axes TVM lists the region from the last axis to the first
    for roi in regions(load, definition.axes, places if len(places) == 2 else places[::-1]):
        yield {MODE: CROP, "roi": roi, "extrapolation_value": value}


def has_literal_weights(body: Term) -> bool:
    """Return whether elements are weighted by literals, and no coordinate is a float."""
    terms = list(subterms(body))
    if any(isinstance(term, CallTerm) and term.op == "cast" for term in terms):
        return False
    return any(isinstance(s, Const) and s.dtype in FLOATS and 0 < s.value < 1 for s in terms)


def _modes(definition: OutputDefinition, load: Load, terms: Sequence[Term]) -> list[str]:
    if all(
        extent is out_extent
        for extent, out_extent in zip(load.tensor.shape, definition.out.shape, strict=True)
    ):
        return list(MODES)
    if has_literal_weights(definition.body):  # the coordinates are not in sight
        return ["half_pixel", "asymmetric", "align_corners"]
    if not _calls(terms, "add", 0.5, "cast"):
        scaled = [
            _scaled(terms, extent, out_extent)
            for extent, out_extent in zip(load.tensor.shape, definition.out.shape, strict=True)
        ]
        return ["asymmetric"] if all(scaled) else ["align_corners"]
    if not _calls(terms, "sub", 0.5, "mul") and not _calls(terms, "sub", 0.5, "add"):
        return ["tf_half_pixel_for_nn"]
    plain = ["half_pixel", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
    return ["pytorch_half_pixel", *plain] if ONE in definition.out.shape[1:] else plain


def _scaled(terms: Sequence[Term], extent: Int, out_extent: Int) -> bool:
    """Whether ``in / out`` is the scale of an axis: a literal, a division, an integer or 1."""
    if extent is out_extent:
        return True
    if extent.const is None or out_extent.const is None:
        return any(
            isinstance(term, CallTerm)
            and term.op == "cast"
            and term.args[0] in (extent, out_extent)
            for term in terms
        )
    integral = any(isinstance(s, CallTerm) and s.op == "floordiv" for s in terms)
    return integral or _constants(terms, float(np.float32(extent.const / out_extent.const)))


def _roundings(terms: Sequence[Term]) -> list[str]:
    ops = {s.op for s in terms if isinstance(s, CallTerm)}
    if "round" in ops:
        return ["round"]
    if "ceil" in ops:
        return ["ceil"] if _constants(terms, 1e-5) else ["round_prefer_floor"]
    small = _constants(terms, 1e-5) or "floor" not in ops
    return ["floor"] if small else ["round_prefer_ceil"]


def _alphas(terms: Sequence[Term]) -> list[float]:
    """Candidate coefficients, which are negative; common ones first."""
    values = {float(s.value) for s in terms if isinstance(s, Const) and s.dtype != "str"}
    return sorted((v for v in values if -2 < v < 0), key=lambda v: (v not in (-0.75, -0.5), -v))


def _constants(terms: Sequence[Term], value: float) -> bool:
    return any(isinstance(s, Const) and abs(float(s.value) - value) < 1e-8 for s in terms)


def _calls(terms: Sequence[Term], op: str, value: float, inner: str) -> bool:
    """Whether ``op(value, inner(…))`` occurs, in any order of operands."""
    return any(
        isinstance(term, CallTerm)
        and term.op == op
        and any(is_const(a, value) for a in term.args)
        and any(isinstance(a, CallTerm) and a.op == inner for a in term.args)
        for term in terms
    )
