"""Check the values of attributes that ONNX describes in words only: flags, choices, least numbers.

Its inference takes any number for a flag, and some converters read 2 as true where others do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..checks.error import FrontendError, shortened

#: Attributes that are 0 or 1 in every operator that has them.
FLAGS = frozenset({
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad",
    "detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget",
    "inverse", "is_causal", "keepdims", "largest", "layout", "linear_before_reset",
    "noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate", "select_last_index",
    "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
})  # fmt: skip
_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
_LOSS = ("none", "mean", "sum")
#: The values of an attribute, by operator and name.
CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{(op, "auto_pad"): _PADS for op in ("Conv", "ConvInteger", "ConvTranspose", "QLinearConv",
                                          "AveragePool", "LpPool", "MaxPool")},
    **{(op, "reduction"): _LOSS for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")},
    ("BitShift", "direction"): ("LEFT", "RIGHT"),
    ("DepthToSpace", "mode"): ("DCR", "CRD"), ("SpaceToDepth", "mode"): ("DCR", "CRD"),
    ("GridSample", "mode"): ("linear", "nearest", "cubic", "bilinear", "bicubic"),
    ("GridSample", "padding_mode"): ("zeros", "border", "reflection"),
    ("Pad", "mode"): ("constant", "reflect", "edge", "wrap"),
}  # fmt: skip
#: The types of ONNX in which norms are computed: any, float, float16, double and bfloat16.
STASHES = (0, 1, 10, 11, 16)
#: The least value of a number, or of each of several.
LEAST: Mapping[tuple[str, str], int] = {
    ("Conv", "group"): 1, ("ConvInteger", "group"): 1, ("ConvTranspose", "group"): 1,
    ("ConvTranspose", "output_padding"): 0, ("ConvTranspose", "output_shape"): 1,
    ("DepthToSpace", "blocksize"): 1, ("LRN", "size"): 1, ("LpNormalization", "p"): 1,
    ("LpPool", "p"): 1, ("QLinearConv", "group"): 1, ("SpaceToDepth", "blocksize"): 1,
    ("Split", "num_outputs"): 1,
}  # fmt: skip


def check_values(op: str, attrs: Mapping[str, Any]) -> None:
    """Raise `FrontendError` for an attribute of ONNX's own operators with an impossible value."""
    for name, value in attrs.items():
        if name in FLAGS and isinstance(value, int) and value not in (0, 1):
            raise FrontendError(f"{name} is {value}, expected 0 or 1")
        if name == "stash_type" and value not in STASHES:
            raise FrontendError(f"{name} is {value}, expected one of {STASHES}")
        choices = CHOICES.get((op, name))
        if choices and isinstance(value, bytes) and value.decode(errors="replace") not in choices:
            text = shortened(value.decode(errors="replace"), 80)
            expected = " or ".join(filter(None, choices))
            raise FrontendError(f"{name} is '{text}', expected {expected}")
        least = LEAST.get((op, name))
        numbers = value if isinstance(value, list) else [value]
        if least is not None and any(number < least for number in numbers):
            raise FrontendError(f"{name} is {value}, expected numbers from {least}")
