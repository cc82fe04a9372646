"""The largest elements of windows in programs of torch, with their positions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from ..formulas.largest_of_windows import Extent, Place, largest_of_windows
from .nodes.declared_types import parts_of


def largest(importer: Any, x: Any, sizes: Sequence[Any], extent: Extent, place: Place) -> Any:
    """Return the largest element of each window, and its position in the flat spatial axes.

    Args:
        importer: The importer.
        x: The tensor; its last axes are spatial.
        sizes: The spatial sizes of the result.
        extent: The largest extent of a window along an axis.
        place: Where a window reads.
    """
    both = importer.block_builder.emit_te(
        lambda data: largest_of_windows(data, sizes, extent, place, True), x)  # fmt: skip
    position, value = parts_of(importer, both, 2)
    return [value, position]


def is_read(node: Any, place: int) -> bool:
    """Return whether a program reads one of the results of a node."""
    return any(u.target is operator.getitem and u.args[1] == place and (u.users or u.op == "output")
               for u in node.users)  # fmt: skip
