"""Inequality, which holds for NaN too: TVM's `not_equal` is false there, as LLVM's ordered one is.

Before: `aten.ne(x, x)`; after: `logical_not(equal(x, x))`.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from tvm import relax

from ..nodes.arguments import Converter


def _different(importer: Any, node: Any) -> Any:
    """Convert ne; of integers and truth values as TVM's importer does."""
    if not any(_is_real(arg) for arg in node.args):
        return importer._binary_op(relax.op.not_equal, operator.ne)(node)
    same = importer._binary_op(relax.op.equal, operator.eq)(node)
    return importer.block_builder.emit(relax.op.logical_not(same))


def _is_real(arg: Any) -> bool:
    value = getattr(arg, "meta", {}).get("val", arg)
    return isinstance(value, float) or bool(
        getattr(getattr(value, "dtype", None), "is_floating_point", False)
    )


CONVERTERS: Mapping[str, Converter] = {"ne.Tensor": _different, "ne.Scalar": _different}
