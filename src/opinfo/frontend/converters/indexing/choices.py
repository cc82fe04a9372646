"""Elements that a mask chooses and that go back to their places: all elements are computed.

The shape of ``x[mask]`` depends on the data. If only elementwise operators read it, and the results
are written by the same mask, the operators run on all of `x`.

Before: ``y[mask] = f(x[mask])``; after: ``y = where(mask, f(x), y)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..arithmetic.torch_quotients import CONVERTERS as QUOTIENTS
from .masks import is_mask

#: Conditions on the number of chosen elements, which torch adds.
_CHECKS = ("sym_size.int", "sym_constrain_range_for_size.default", "_assert_scalar.default",
           "ge", "le", "eq", "ne", "gt", "lt", "sym_ite",
           "sym_constrain_range.default")  # fmt: skip


def chosen(nodes: Iterable[Any]) -> set[Any]:
    """Return the nodes to compute for all elements instead of those that a mask chooses.

    Choices by one mask from tensors of one shape may meet in an operator.
    """
    groups: dict[Any, list[Any]] = {}
    for node in nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.index.Tensor:
            mask = _mask(node.args[1])
            if mask is not None:
                groups.setdefault((mask, _shape(node.args[0])), []).append(node)
    return {node for (mask, _), group in groups.items() for node in _with_users(group, mask)}


def _mask(indices: Any) -> tuple[int, Any] | None:
    """Return the place of the only index, if it is a mask, and the mask."""
    given = [(k, index) for k, index in enumerate(indices) if index is not None]
    return given[0] if len(given) == 1 and is_mask(given[0][1]) else None


def _shape(node: Any) -> tuple[str, ...]:
    return tuple(map(str, node.meta["val"].shape))


def _with_users(group: list[Any], mask: tuple[int, Any]) -> set[Any]:
    """Return choices and the operators that read them, up to where they are written back."""
    place, rank = mask[0], mask[1].meta["val"].ndim
    behind = group[0].args[0].meta["val"].ndim - place - rank
    found, left = set(group), list(group)
    while left:
        for user in left.pop().users:
            name = getattr(user.target, "__name__", "")
            if user in found or checks(user):
                continue
            if name == "index_put.default" and _mask(user.args[1]) == mask:
                if _shape(user.args[0]) == _shape(group[0].args[0]) and user.args[0] not in found:
                    continue
            if not _is_elementwise(user, found, behind):
                return set()
            found.add(user)
            left.append(user)
    return found


def checks(node: Any) -> bool:
    """Return whether a node is a check, or computes what only checks read."""
    return getattr(node.target, "__name__", "") in _CHECKS and all(map(checks, node.users))


def _is_elementwise(node: Any, found: set[Any], behind: int) -> bool:
    """Return whether a node computes each element from one of each choice, and cannot fail."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.pointwise not in tags or node.target.__name__ in QUOTIENTS:
        return False
    others = [a for a in node.all_input_nodes if a not in found]
    return all(getattr(a.meta.get("val"), "ndim", 0) <= behind for a in others)
