"""What statements of kernels say: the threads that they bind, their stores and lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def thread_tag(s: Any) -> str:
    """The tag of the thread that a loop or an attribute binds; empty if it binds none."""
    bound = getattr(s, "thread_binding", None)
    bound = getattr(s, "node", None) if bound is None else bound
    return str(getattr(bound, "thread_tag", ""))


def bound_threads(s: Any) -> list[tuple[str, Any]]:
    """Tag and extent of each loop that is bound to a thread."""
    found, todo = list[tuple[str, Any]](), [s]
    while todo:
        x = todo.pop(0)
        kind = type(x).__name__
        if kind == "For" and thread_tag(x):
            found.append((thread_tag(x), x.extent))
        elif kind == "AttrStmt" and x.attr_key in ("thread_extent", "virtual_thread"):
            found.append((thread_tag(x) or str(x.node.var.name), x.value))
        todo += nodes_inside(x)
    return found


def nodes_inside(x: Any) -> list[Any]:
    """The statements directly in a statement."""
    kind = type(x).__name__
    if kind == "SeqStmt":
        return list(x.seq)
    if kind == "SBlockRealize":
        return [p for p in (x.block.init, x.block.body) if p is not None]
    if kind == "IfThenElse":
        return [p for p in (x.then_case, x.else_case) if p is not None]
    return [x.body] if hasattr(x, "body") else []


def stored_buffers(block: Any) -> set[Any]:
    """The buffers that a block stores to."""
    found, todo = set(), [block.body]
    while todo:
        x = todo.pop()
        if type(x).__name__ == "BufferStore":
            found.add(x.buffer)
        todo += nodes_inside(x)
    return found


def follows_threads(value: Any, at: Array, every: dict[str, Array]) -> bool:
    """Whether a value changes with a thread index while all others stay."""
    if np.ndim(value) == 0:
        return False
    key = np.zeros(len(at), np.int64)
    for other in every.values():
        if other is not at:
            key = key * (int(other.max()) + 1) + other
    order = np.lexsort((at, key))
    k, v = key[order], np.asarray(value)[order]
    return bool(np.any((k[1:] == k[:-1]) & (v[1:] != v[:-1])))


def has_threads(func: Any) -> bool:
    """Whether loops are bound to threads."""
    return bool(bound_threads(func.body))


def lanes_of_store(s: Any) -> int:
    """The number of elements that a store writes."""
    text = [str(e.ty.dtype) for e in (*s.indices, s.value)]
    return max(int(t.split("x")[1]) if "x" in t else 1 for t in text)
