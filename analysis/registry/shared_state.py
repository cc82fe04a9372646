"""Detect and undo changes to the tensors and terms that all recognisers share."""

from __future__ import annotations

from functools import cache
from operator import attrgetter, is_
from typing import Any

from ..lifting.effects.tensor_expression import TensorExpression
from ..terms.term import TensorVar
from ..terms.traversal import subterms

#: Slots in which analyses cache results; the value of a term does not depend on them.
_REMEMBERED = frozenset({"__weakref__", "free", "memo"})


class Snapshot:
    """The present fields of the tensors and terms of a tensor expression."""

    def __init__(self, lifted: TensorExpression) -> None:
        bodies = (t for c in lifted.outputs for part in (*c.axes, c.body) for t in subterms(part))
        shapes = (e for p in lifted.params if isinstance(p, TensorVar) for e in p.shape)
        parts = dict.fromkeys((*lifted.params, *shapes, *bodies))
        self._states = [(x, _fields(x)(x)) for x in parts]

    def restore(self) -> bool:
        """Undo the changes since; return whether there were any."""
        changed = False
        for node, state in self._states:
            if not _unchanged(node, state):
                changed = True
                for name, value in zip(_names(type(node).__mro__), state, strict=True):
                    object.__setattr__(node, name, value)
        return changed


def _unchanged(node: Any, state: tuple[Any, ...]) -> bool:
    try:
        return all(map(is_, _fields(node)(node), state))
    except AttributeError:
        return False


def _fields(node: Any) -> attrgetter[tuple[Any, ...]]:
    return _getter(type(node).__mro__)


@cache
def _getter(kinds: tuple[type, ...]) -> attrgetter[tuple[Any, ...]]:
    return attrgetter(*_names(kinds))


@cache
def _names(kinds: tuple[type, ...]) -> tuple[str, ...]:
    """The slots of a class and of those that it inherits from."""
    slots = (s for k in kinds for s in getattr(k, "__slots__", ()))
    return tuple(sorted(set(slots) - _REMEMBERED))
