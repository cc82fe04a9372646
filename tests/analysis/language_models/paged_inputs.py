"""Inputs for attention over pages and ragged batches: three short sequences on a few pages."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis.support.ir.constructors import constructor_of

Array = npt.NDArray[Any]
#: Queries, keys in pages, and keys in a ragged batch, of each sequence.
ROWS, TOKENS, KEYS = (3, 4, 2), (5, 40, 17), (5, 4, 3)
#: More than a tile has rows: what a kernel may read behind the last node of a tree.
_ROOM = 32


def kernel_arguments(
    func: Any, operator: str, operands: tuple[int, ...], *, causal: int = 1, turned: int = 0
) -> list[Any]:
    """Return arguments for a kernel, in the order of its parameters: arrays and numbers.

    Args:
        func: The PrimFunc.
        operator: The operator that it computes.
        operands: The operator's operands among the parameters.
        causal: Whether rows see the keys before them only.
        turned: The rotary mode.
    """
    rng = np.random.default_rng(3)
    roles = dict(
        zip(inspect.signature(constructor_of(operator)).parameters, operands, strict=False)
    )
    values = _values(func, roles, rng, causal, turned)
    arguments: dict[int, Any] = {k: values[role] for role, k in roles.items()}
    sizes: dict[str, int] = {}
    for k, value in arguments.items():
        param = func.params[k]
        if is_buffer_var(param):
            pairs = zip(param.ty.shape, np.shape(value), strict=True)
            sizes |= {e.name: n for e, n in pairs if type(e).__name__ == "Var"}
            sizes |= {
                e.a.name: n - int(e.b)
                for e, n in zip(param.ty.shape, np.shape(value), strict=True)
                if type(e).__name__ == "Add"
            }
    return [
        arguments[k] if k in arguments else _other(param, sizes)
        for k, param in enumerate(func.params)
    ]


def _other(param: Any, sizes: Mapping[str, int]) -> Any:
    """A parameter that is not an operand: an output, a size, or one that is only passed on."""
    dtype = str(param.ty.dtype)
    if not is_buffer_var(param):
        return np.asarray(sizes.get(param.name, 0), dtype)
    shape = [
        int(e) if type(e).__name__ == "IntImm" else sizes[e.name]
        if type(e).__name__ == "Var" else sizes[e.a.name] + int(e.b)
        for e in param.ty.shape
    ]  # fmt: skip
    return np.zeros(shape, dtype)


def _values(
    func: Any, roles: Mapping[str, int], rng: Any, causal: int, turned: int
) -> dict[str, Array]:
    def extents(role: str) -> list[int]:
        shape = func.params[roles[role]].ty.shape
        return [int(e) if type(e).__name__ == "IntImm" else 0 for e in shape]

    def floats(*shape: int) -> Array:
        return np.asarray(rng.standard_normal(shape), dtype)

    dtype = str(func.params[0].ty.dtype)
    rows = _starts(ROWS) if "query_indptr" in roles else _starts((1, 1, 1))
    out: dict[str, Array] = {"query_indptr": rows, "key_offsets": _int(0, 3, 7)}
    out |= {"causal": _int(causal)[0], "rotary_mode": _int(turned)[0], "tree_indptr": rows}
    numbers = {"rope_scale": 1.5, "rope_theta": 10000.0, "scale": 0.2}
    out |= {k: np.asarray(v, "float32") for k, v in numbers.items()}
    out["positions"] = rng.integers(0, 50, rows[-1]).astype("int32")
    if "query" in roles:
        out["query"] = floats(rows[-1], *extents("query")[1:])
    if "keys" in roles:
        tree = "tree" in roles
        out["key_indptr"] = rows if tree else _starts(KEYS)
        out["keys"], out["values"] = (
            floats(out["key_indptr"][-1], *extents("keys")[1:]) for _ in range(2)
        )
    if "pages" in roles:
        _, _, groups, page, features = extents("pages")
        counts = [-(-n // page) for n in TOKENS]
        out["page_indptr"] = _starts(counts)
        out["page_table"] = rng.permutation(sum(counts) + 2)[: sum(counts)].astype("int32")
        out["pages"] = floats(sum(counts) + 2, 2, groups, page, features)
        last = [n - page * (c - 1) for n, c in zip(TOKENS, counts, strict=True)]
        hidden = [last, [2, 9, 0], [1, 4, 0]]
        if "lengths" in roles:
            out["lengths"] = _int(*(hidden if len(extents("lengths")) == 2 else last))
        if operator_moves(roles):
            places = rng.permutation((sum(counts) + 2) * page)[: 2 * rows[-1]]
            out["positions"] = places.reshape(2, -1).astype("int32")
            out["indptr"] = _starts((rows[-1] - 2, 2, 0))
    out |= {k: np.asarray(v, "int64") for k, v in (("source", 3), ("target", 1), ("length", 5))}
    out["tree"] = _trees()
    return out


def operator_moves(roles: Mapping[str, int]) -> bool:
    return "indptr" in roles


def _trees() -> Array:
    """The nodes of trees: their numbers, and those after their descendants."""
    nodes = [[0, 3], [1, 2], [2, 3], [0, 4], [1, 3], [2, 3], [3, 4], [0, 1], [1, 2]]
    return np.asarray(nodes + [[0, 0]] * _ROOM, "int32")


def _starts(counts: Any) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype("int32")


def _int(*values: Any) -> Array:
    return np.asarray(values, "int32")
