"""Kinds and layouts that an answer must have, said by operator and not by the analysis."""

from __future__ import annotations

from opinfo.analysis import OpInfo
from opinfo.testing.layout_strings import faults

from . import Variant

#: What fusion may take an operator for. A dimension of extent 1 makes a simpler kind of some.
KINDS = {
    "kOutEWiseFusable": "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose "
    "nn.conv3d_transpose matmul",
    "kCommReduce": "sum prod max min mean argmax argmin collapse_sum_to nn.max_pool1d "
    "nn.max_pool2d nn.max_pool3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d "
    "nn.adaptive_avg_pool3d",
    "kOpaque": "nn.softmax nn.log_softmax nn.layer_norm nn.rms_norm nn.group_norm "
    "nn.instance_norm nn.attention variance std",
    "kInjective": "permute_dims concat stack split strided_slice take gather_elements gather_nd "
    "index_tensor tile repeat flip nn.pad layout_transform reverse_sequence slice_scatter one_hot",
    "kBroadcast": "broadcast_to",
    "kElemWise": "abs exp tanh sigmoid sqrt negative nn.relu nn.gelu nn.silu astype clip",
}
_KIND = {f"relax.{n}": kind for kind, names in KINDS.items() for n in names.split()}
_ORDER = ("kElemWise", "kBroadcast", "kInjective", "kCommReduce", "kOutEWiseFusable", "kOpaque")


def kinds(v: Variant, info: OpInfo) -> str:
    """Why the answer's kind is wrong; empty if it is not."""
    expected = _KIND.get(info.name)
    if expected is None or info.kind == expected or info.relaid:
        return ""
    small = any(d in text for text in v.operands for d in ("[1]", "[1,", " 1,", " 1]", "[]"))
    simpler = _ORDER.index(info.kind) < _ORDER.index(expected)
    whole = "adaptive" in v.op and "output_size" not in v.attrs  # the output size is the input's
    if simpler and (small or whole or any(s in str(v.attrs) for s in _ONE_TAP)):
        return ""
    return f"kind {info.kind}, not {expected}"


#: Attributes with which a window has one element, or a movement moves nothing.
_ONE_TAP = ("(1,)", "(1, 1)", "(1, 1, 1)", "'repeats'", "'pad_width'", "'output_size'")


def layouts_of(v: Variant, info: OpInfo) -> str:
    """Why the answer's layouts are wrong: they must be those of the attributes built."""
    if wrong := faults(info):
        return f"layout strings {wrong}"
    data = v.attrs.get("data_layout") or v.attrs.get("layout")
    if data is None or info.name != v.op or info.attrs.get("data_layout", data) != data:
        return ""
    if info.attrs.get("kernel_layout") != v.attrs.get("kernel_layout"):
        return ""
    stated = [t for t in info.layouts if t]
    kernel = [v.attrs["kernel_layout"]] if "kernel_layout" in v.attrs else []
    wanted = sorted([data, *kernel, v.attrs.get("out_layout") or data])
    same = sorted(stated) == wanted or info.attrs.get("layout", data) != data
    return "" if same or not stated else f"layouts {stated}, not {wanted}"
