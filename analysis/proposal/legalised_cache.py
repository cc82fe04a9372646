"""A cache of legalised operators.

A legalised operator depends on its name, attributes, the types of its operands, its ``FLegalize``
rule and the current target. The first three are the key. A call under a target, over symbolic sizes
or with values that are not plain is not cached. An entry whose rule was replaced is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from ..lifting.effects.tensor_expression import TensorExpression
from ..terms.term import Int, TensorVar
from .proposal import Constant, Proposal

#: How many legalised operators are kept: those of a large model.
KEPT = 512

Key = tuple[Any, ...]


@dataclass(frozen=True)
class KnownFunction:
    """A PrimFunc of ``size`` parameters, the positions of its inputs, and its rule."""

    func: Any
    inputs: tuple[int, ...]
    size: int
    op: Any
    rule: Any


_cache: dict[Key, KnownFunction] = {}


def key_of(proposal: Proposal, lifted: TensorExpression, dtype: str) -> Key | None:
    """Return the key of a proposal, or None if its result must not be cached."""
    if tvm.target.Target.current(allow_none=True) is not None:
        return None
    try:
        types = tuple(_type(t) for t in lifted.params)
        attrs = tuple((k, _plain(v)) for k, v in sorted(proposal.attrs.items()))
        return proposal.name, tuple(map(_plain, proposal.operands)), attrs, types, dtype
    except NotPlain:
        return None


def recall(key: Key | None) -> KnownFunction | None:
    """Return the legalised operator, if its rule is still the same."""
    entry = None if key is None else _cache.pop(key, None)
    if key is None or entry is None or not _same_rule(entry):
        return None
    _cache[key] = entry  # now the last to be evicted
    return entry


def remember(key: Key | None, entry: KnownFunction) -> None:
    """Keep a legalised operator; the least recently used one is evicted."""
    if key is None or entry.rule is None:
        return
    while len(_cache) >= KEPT:
        del _cache[next(iter(_cache))]
    _cache[key] = entry


class NotPlain(Exception):
    """A value that cannot be part of a key."""


def _same_rule(entry: KnownFunction) -> bool:
    rule = entry.op.get_attr("FLegalize")
    return rule is not None and bool(rule.same_as(entry.rule))


def _type(param: Any) -> Key:
    if not isinstance(param, TensorVar) or any(e.const is None for e in param.shape):
        raise NotPlain
    return param.dtype, *(e.const for e in param.shape)


def _plain(value: Any) -> Key:
    """A key for a value, equal only for values that mean the same: 1, 1.0 and True differ."""
    kind = type(value)
    if value is None or kind in (int, bool, str):
        return kind, value
    if kind is float:
        return kind, value.hex()  # tells the zeros apart
    if kind in (tuple, list):
        return kind, *map(_plain, value)
    if kind is Constant:
        return kind, _plain(value.value), value.dtype
    if isinstance(value, Int) and value.const is not None:
        return Int, value.const
    raise NotPlain
