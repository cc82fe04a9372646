"""Maximum pools over whole axes, as which ONNX's `ReduceMax` is read."""

from __future__ import annotations

from ...patterns.pattern import Node


def part_of_axes(node: Node) -> str | None:
    """No maximum pool has one window that covers its axes: that is a reduction.

    The maximum of a row of -inf is -inf, where pools of libraries have the lowest finite number.
    """
    info, data = node.info, node.operand(0)
    if data is None or not info.name.startswith("relax.nn.max_pool"):
        return None
    spatial = [e for e, c in zip(data.shape, str(info.attrs["layout"]), strict=False) if c in "DHW"]
    size, padding = (_integers(info.attrs[name]) for name in ("pool_size", "padding"))
    if any(padding) or size != spatial or "float" not in data.dtype:
        return None
    return "the maximum is of whole axes, which may be -inf; pools have the lowest finite number"


def _integers(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
