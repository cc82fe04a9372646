"""Locate errors of TVM's importers: the node of the model at which they occurred."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from tvm import relax

from ..checks.node_description import describe

#: Limit on the characters of a node, which a file may choose freely.
LONGEST = 300
#: The importers' loops over nodes, with their current node, or the first node without a conversion.
LOOPS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "_construct_nodes": lambda scope: scope["node"],
    "_translate_fx_graph": lambda scope: scope["node"],
    "_check_for_unsupported_ops": lambda scope: next(
        n for n in scope["graph"].node if n.op_type in scope["unsupported_ops"]
    ),
    "without_converter": lambda scope: scope["missing"],
}


@contextmanager
def tidied() -> Iterator[None]:
    """Close the block builders that a failed importer leaves open; TVM warns otherwise."""
    try:
        yield
    except Exception as error:
        for scope in _scopes(error):
            owner = scope.get("self")
            for value in vars(owner).values() if hasattr(owner, "__dict__") else ():
                if isinstance(value, relax.BlockBuilder):
                    _end(value)
        raise


def at_node(error: BaseException) -> str:
    """Return `` at node 'conv1' (Conv)`` for the node being converted, or an empty string."""
    place = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        node = LOOPS.get(frame.f_code.co_name)
        if node is not None:
            with suppress(AttributeError, LookupError, StopIteration):  # another version of TVM
                text = describe(node(frame.f_locals))
                place = f" at {text if len(text) <= LONGEST else text[:LONGEST] + '…'}"
    return place


def _scopes(error: BaseException) -> list[Mapping[str, Any]]:
    return [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__)]


def _end(builder: Any) -> None:
    with suppress(Exception):  # raises when no block is left
        while True:
            builder._end_block()
