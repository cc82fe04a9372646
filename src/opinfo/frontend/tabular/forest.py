"""Decision trees as arrays over all nodes, from the attributes of ``ai.onnx.ml``.

Each comparison is ``x <= split`` or ``x == split``: ``x < s`` is ``x <= s'`` for the number s'
before s, and ``>``, ``>=``, ``!=`` swap the children. Where ``x`` is NaN, all comparisons fail, and
a flag says that the node's first child is taken all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..onnx_graph.attributes import array
from ..onnx_graph.values import NotConvertible

Array = np.ndarray[Any, Any]
#: The comparisons by the numbers of `TreeEnsemble`; others need a set of numbers.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SWAPPED = ("BRANCH_GTE", "BRANCH_GT", "BRANCH_NEQ")
BEFORE = ("BRANCH_LT", "BRANCH_GTE")
#: The most levels of a tree, and bytes of weights, as each node has one for each target.
LEVELS, BYTES = 64, 1 << 28


@dataclass(frozen=True, eq=False)
class Forest:
    """Arrays with an element for each node; a leaf is both children of itself.

    Attributes:
        features: The column that a node reads.
        splits: What it is compared with.
        equal: Whether the comparison is for equality.
        missing: Whether NaN passes.
        then: The child of rows that pass.
        other: The child of others.
        weights: A row of numbers for each leaf, one for each target.
        roots: The nodes at which trees start.
        depth: The levels of the deepest tree.
        complete: Whether each leaf has a number for each target.
        always: Whether each row gets a number for each target: some tree has it in all leaves.
    """

    features: Array
    splits: Array
    equal: Array
    missing: Array
    then: Array
    other: Array
    weights: Array
    roots: Array
    depth: int
    complete: bool
    always: bool


def classic_forest(
    attrs: Mapping[str, Any], prefix: str, targets: int, dtype: str
) -> Forest:  # fmt: skip
    """Return the trees of `TreeEnsembleRegressor` or `TreeEnsembleClassifier`.

    Args:
        attrs: The attributes.
        prefix: ``target`` or ``class``.
        targets: The number of targets.
        dtype: That of splits, as of the input.

    Raises:
        NotConvertible: The trees contradict themselves, or are beyond limits.
    """
    keys = list(zip(attrs.get("nodes_treeids", ()), attrs.get("nodes_nodeids", ()), strict=True))
    place = {key: k for k, key in enumerate(keys)}
    if not keys or len(place) != len(keys):
        raise NotConvertible("it has no nodes, or two of the same number")
    modes = [m.decode() if isinstance(m, bytes) else str(m) for m in attrs.get("nodes_modes", ())]
    inner = np.array([m != "LEAF" for m in modes], bool)
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = _listed(attrs, name, len(keys))
        found = [place.get((keys[k][0], ids[k]), -1) if inner[k] else k for k in range(len(keys))]
        children.append(np.array(found, "int64"))
    weights, seen = _weights(attrs, prefix, targets, place, dtype)
    is_child = np.zeros(len(keys), bool)
    for child in children:
        is_child[child[inner & (child >= 0)]] = True
    roots = np.flatnonzero(~is_child)
    if len(roots) != len({tree for tree, _ in keys}):
        raise NotConvertible("a tree has no root, or several")
    # A loop beside a tree has no root, and a leaf may pass for that of its nodes.
    if not _reached(children, inner, roots).all():
        raise NotConvertible("a node is not below the root of its tree")
    return _forest(attrs, modes, inner, children, _splits(attrs, "nodes_values", dtype), weights,
                   roots, seen)  # fmt: skip


def forest_of_roots(attrs: Mapping[str, Any], dtype: str) -> Forest:
    """Return the trees of `TreeEnsemble`, which lists leaves apart. Raises as `classic_forest`."""
    if attrs.get("membership_values") is not None:
        raise NotConvertible("a comparison with a set of numbers has no lowering")
    numbers = array(attrs["nodes_modes"]).reshape(-1).tolist()
    if any(not 0 <= n < len(MODES) for n in numbers):
        raise NotConvertible("a comparison with a set of numbers has no lowering")
    count, leaves = len(numbers), array(attrs["leaf_weights"]).reshape(-1)
    total = count + len(leaves)
    inner = np.arange(total) < count
    children = []
    for side in ("true", "false"):
        ids = np.array(_listed(attrs, f"nodes_{side}nodeids", count), "int64")
        of_leaf = np.array(_listed(attrs, f"nodes_{side}leafs", count), "int64") != 0
        bad = (ids < 0) | (ids >= np.where(of_leaf, len(leaves), count))
        child = np.where(bad, -1, ids + of_leaf * count)
        children.append(np.concatenate([child, np.arange(count, total)]))
    targets = int(attrs.get("n_targets", 1))
    ids = np.array(_listed(attrs, "leaf_targetids", len(leaves)), "int64")
    weights = _zeros(total, targets, dtype)
    if ids.size and not 0 <= ids.min() <= ids.max() < targets:
        raise NotConvertible(f"a leaf is of a target outside of {targets}")
    weights[count + np.arange(len(leaves)), ids] = leaves
    seen = np.zeros(weights.shape, bool)
    seen[count + np.arange(len(leaves)), ids] = True
    roots = np.array(attrs["tree_roots"], "int64")
    if roots.size == 0 or not 0 <= roots.min() <= roots.max() < count:
        raise NotConvertible(f"tree_roots has no nodes, or some outside of {count}")
    modes = [MODES[n] for n in numbers] + ["LEAF"] * len(leaves)
    splits = np.concatenate([array(attrs["nodes_splits"]).reshape(-1).astype(dtype),
                             np.zeros(len(leaves), dtype)])  # fmt: skip
    return _forest(attrs, modes, inner, children, splits, weights, roots, seen)


def _forest(
    attrs: Mapping[str, Any], modes: Sequence[str], inner: Array, children: Sequence[Array],
    splits: Array, weights: Array, roots: Array, seen: Array,
) -> Forest:  # fmt: skip
    """Return the arrays of nodes, with comparisons in their two forms."""
    total, kinds = len(inner), np.array(modes)
    if len(kinds) != total or len(splits) != total:
        raise NotConvertible(f"it has {len(kinds)} modes and {len(splits)} splits, expected "
                             f"{total}")  # fmt: skip
    if unknown := set(modes) - {*MODES, "LEAF"}:
        raise NotConvertible(f"the comparison {min(unknown)[:40]} has no lowering")
    if any((child < 0).any() for child in children):
        raise NotConvertible("a node has a child that is not in its tree")
    before = np.isin(kinds, BEFORE)
    if np.isnan(splits[inner]).any() or np.isneginf(splits[inner & before]).any():
        raise NotConvertible("a node compares with NaN, or with what is before all numbers")
    listed = int(inner.sum()) if len(attrs.get("nodes_featureids", ())) != total else total
    columns = _filled(_listed(attrs, "nodes_featureids", listed), total, "int64")
    if columns.min() < 0:
        raise NotConvertible("a node reads a feature below 0")
    tracked = attrs.get("nodes_missing_value_tracks_true") or [0] * listed
    missing = _filled(tracked, total, "int64").astype(bool)
    swapped = np.isin(kinds, SWAPPED)
    least = np.nextafter(splits, np.array(-np.inf, splits.dtype))
    then, other = children
    return Forest(
        np.where(inner, columns, 0), np.where(before, least, splits),
        np.isin(kinds, ("BRANCH_EQ", "BRANCH_NEQ")), (missing ^ swapped) & inner,
        np.where(swapped, other, then), np.where(swapped, then, other), weights, roots,
        _depth(children, inner, roots), bool(seen[~inner].all()),
        _always(children, inner, roots, seen),
    )  # fmt: skip


def _reached(children: Sequence[Array], inner: Array, roots: Array) -> Array:
    """Return which nodes are below a root, or are one."""
    reached = np.zeros(len(inner), bool)
    at = roots
    while at.size:
        reached[at] = True
        below = np.unique(np.concatenate([child[at[inner[at]]] for child in children]))
        at = below[(below >= 0) & ~reached[below]]
    return reached


def _depth(children: Sequence[Array], inner: Array, roots: Array) -> int:
    """Return the number of comparisons on the longest way from a root to a leaf."""
    level, at = 0, np.unique(roots[inner[roots]])
    while at.size:
        level += 1
        if level > LEVELS:
            raise NotConvertible(f"a tree has a loop, or over {LEVELS} levels")
        below = np.unique(np.concatenate([child[at] for child in children]))
        at = below[inner[below]]
    return level


def _always(children: Sequence[Array], inner: Array, roots: Array, seen: Array) -> bool:
    """Return whether for each target, some tree has a number in all of its leaves."""
    lacks = ~seen & ~inner[:, None]
    for _ in range(LEVELS):  # from leaves to roots
        above = lacks[children[0]] | lacks[children[1]]
        if (above == lacks).all():
            break
        lacks = above
    return bool((~lacks[roots]).any(axis=0).all())


def _weights(
    attrs: Mapping[str, Any], prefix: str, targets: int, place: Mapping[Any, int], dtype: str
) -> tuple[Array, Array]:
    """Return the numbers of leaves, and which of them there are."""
    values = _splits(attrs, f"{prefix}_weights", dtype)
    names = (f"{prefix}_treeids", f"{prefix}_nodeids", f"{prefix}_ids")
    trees, nodes, ids = (_listed(attrs, name, len(values)) for name in names)
    weights = _zeros(len(place), targets, dtype)
    seen = np.zeros(weights.shape, bool)
    for tree, number, target, value in zip(trees, nodes, ids, values, strict=True):
        k = place.get((tree, number), -1)
        if k < 0 or not 0 <= target < targets or seen[k, target]:
            raise NotConvertible("a weight is of no leaf or target, or of one that has one already")
        weights[k, target], seen[k, target] = value, True
    return weights, seen


def _zeros(nodes: int, targets: int, dtype: str) -> Array:
    if targets < 1 or nodes * targets * np.dtype(dtype).itemsize > BYTES:
        raise NotConvertible(f"it has {nodes} nodes and {targets} targets, expected at most "
                             f"{BYTES} bytes of weights")  # fmt: skip
    return np.zeros((nodes, targets), dtype)


def _splits(attrs: Mapping[str, Any], name: str, dtype: str) -> Array:
    """Return a list of numbers, which may be a tensor of float64 instead."""
    tensor = attrs.get(f"{name}_as_tensor")
    values = attrs.get(name, ()) if tensor is None else array(tensor).reshape(-1)
    return np.array(values, dtype)


def _listed(attrs: Mapping[str, Any], name: str, count: int) -> list[int]:
    values = list(attrs.get(name, ()))
    if len(values) != count:
        raise NotConvertible(f"{name} has {len(values)} numbers, expected {count}")
    return values


def _filled(values: Sequence[int], total: int, dtype: str) -> Array:
    """Return numbers of inner nodes, and 0 for leaves behind them."""
    return np.array([*values, *[0] * (total - len(values))], dtype)
