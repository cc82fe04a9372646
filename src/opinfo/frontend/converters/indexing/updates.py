"""Updates of a tensor at positions; TVM reduces no truth values, so these become 0 and 1.

Before: ``scatter_nd(x: bool, index, rows, "add")``; after:
``astype(scatter_nd(astype(x, "uint8"), index, astype(rows, "uint8"), "max"), "bool")``.
"""

from __future__ import annotations

from typing import Any

from tvm import relax

op = relax.op
#: Reductions of 0 and 1 in place of those of truth values, whose sum is their disjunction.
_OF_TRUTH = {"add": "max", "mul": "min", "max": "max", "min": "min"}


def elements_updated(
    importer: Any, x: Any, index: Any, rows: Any, axis: int, reduction: str
) -> Any:
    """Return `scatter_elements`, of truth values too."""
    return _updated(importer, x, rows, reduction,
                    lambda a, b, how: op.scatter_elements(a, index, b, axis, how))  # fmt: skip


def points_updated(importer: Any, x: Any, index: Any, rows: Any, reduction: str) -> Any:
    """Return `scatter_nd`, of truth values too."""
    return _updated(importer, x, rows, reduction,
                    lambda a, b, how: op.scatter_nd(a, index, b, how))  # fmt: skip


def _updated(importer: Any, x: Any, rows: Any, reduction: str, write: Any) -> Any:
    emit = importer.block_builder.emit
    if str(x.ty.dtype) != "bool" or reduction not in _OF_TRUTH:
        return emit(write(x, rows, reduction))
    data, updates = (emit(op.astype(a, "uint8")) for a in (x, rows))
    return emit(op.astype(emit(write(data, updates, _OF_TRUTH[reduction])), "bool"))
