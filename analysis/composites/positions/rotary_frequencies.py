"""The angles of rotary position embeddings, with the changes for long contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.relax import op

from .rope_scaling import RELAX, RopeScaling

DTYPE = "float32"


def frequencies(
    places: Any, base: float, size: int, neighbours: bool, scaling: str, parameters: Sequence[float]
) -> Any:
    """Return the angles, positions times frequencies, float32 of (positions, size).

        none:    f = base ** (-2 k / size)
        llama3:  f * (1 - r) * i + f * r       with r = max(0, min(1, a * f - b))
        llama4:  f / i if t < w / f else f
        yarn:    f / i * (1 - m) + f * m       with m = 1 - max(min((d - a) / b, 1), 0)

    Args:
        places: The positions, float32 of (positions, 1).
        base: The base of the powers.
        size: The number of features.
        neighbours: Whether the features of a pair k are 2 k and 2 k + 1, otherwise k and
            k + size / 2.
        scaling: A key of `SCALINGS`.
        parameters: Its numbers in the order of `SCALINGS`. In terms of a model's configuration,
            with ``span = high_freq_factor - low_freq_factor``: of llama3 the inverse factor,
            ``original_max / (2 pi span)`` and ``low_freq_factor / span``; of llama4 the factor,
            ``original_max / low_freq_factor`` and 2 pi; of yarn the factor, the first dimension of
            the ramp and its length.
    """
    if len(parameters) != len(SCALINGS[scaling]):
        raise ValueError(
            f"rotary_embedding: parameters {list(parameters)} of {scaling}, expected "
            f"({', '.join(SCALINGS[scaling])})"
        )
    _, power = powers(base, size, neighbours)
    if scaling == "none":
        return op.divide(places, power)
    if scaling == "llama4":
        return op.multiply(places, _llama4(power, *map(_number, parameters)))
    feature = op.astype(op.arange(0, size, 1, "int64"), DTYPE)
    known = RopeScaling(scaling, tuple(map(float, parameters)))
    return op.multiply(places, known.frequency(power, feature, RELAX))


def powers(base: float, size: int, neighbours: bool) -> tuple[Any, Any]:
    """Return the place of each feature, halved for pairs of neighbours, and the power of the base
    that divides its angle.
    """
    place = op.arange(0, size, 1, "int64")
    if neighbours:
        place = op.floor_divide(place, _integer(2))
    index = op.floor_mod(op.multiply(place, _integer(2)), _integer(size))
    exponent = op.divide(op.astype(index, DTYPE), _number(size))
    return place, op.power(_number(base), exponent)


def _number(value: float) -> Any:
    return tirx.const(float(value), DTYPE)


def _integer(value: int) -> Any:
    return tirx.const(value, "int64")


def _llama4(power: Any, factor: Any, threshold: Any, turn: Any) -> Any:
    frequency = op.divide(_number(1), power)
    is_slow = op.less(threshold, op.divide(turn, frequency))
    return op.where(is_slow, op.divide(frequency, factor), frequency)


#: The names of the numbers of each scaling.
SCALINGS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "llama3": ("inverse_factor", "slope", "start"),
    "llama4": ("factor", "threshold", "turn"),
    "yarn": ("factor", "first", "length"),
}
