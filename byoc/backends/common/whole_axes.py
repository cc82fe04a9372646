"""Maximum pools over whole axes, as which ONNX's `ReduceMax` is read."""

from __future__ import annotations

from ...patterns.pattern import Node


def part_of_axes(node: Node) -> str | None:
    """No maximum pool has windows of whole axes, and of one element along others: a reduction.

    The maximum of a row of -inf is -inf, where pools of libraries have the lowest finite number.
    """
    info, data = node.info, node.operand(0)
    if data is None or not info.name.startswith("relax.nn.max_pool"):
        return None
    spatial = [e for e, c in zip(data.shape, str(info.attrs["layout"]), strict=False) if c in "DHW"]
    size, padding = (_integers(info.attrs[name]) for name in ("pool_size", "padding"))
    whole = [s == e for s, e in zip(size, spatial, strict=True)]
    rest = [s for s, covers in zip(size, whole, strict=True) if not covers]
    if any(padding) or not any(whole) or any(s != 1 for s in rest) or "float" not in data.dtype:
        return None
    return "the maximum is of whole axes, which may be -inf; pools have the lowest finite number"


def _integers(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
