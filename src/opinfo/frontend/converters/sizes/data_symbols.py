"""Sizes of torch programs that are data: numbers of tensors, and how many elements are chosen.

Before: ``u = x.item(); arange(u)``; after: ``arange(item_0)`` with a symbol that a cast defines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tvm import relax

from ...checks.data_sizes import data_sizes
from .size_checks import emit_check


def sized(nodes: Iterable[Any]) -> set[str]:
    """Return the names of the symbols in the shapes of tensors."""
    out = set()
    for node in nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (tuple, list)) else [values]:
            sizes = value.shape if isinstance(value, torch.Tensor) else ()
            out |= {str(symbol) for size in sizes if isinstance(size, torch.SymInt)
                    for symbol in size.node.expr.free_symbols}  # fmt: skip
    return out


def item_name(declared: Any) -> str:
    """Return the symbol of what is read from a tensor; torch has `u == 1` for a truth value."""
    expr = declared.node.expr
    symbols = list(expr.free_symbols)
    return str(symbols[0] if isinstance(declared, torch.SymBool) and len(symbols) == 1 else expr)


def size_of_item(importer: Any, node: Any, declared: Any) -> Any:
    """Return the symbol of a number that a node reads from a tensor, if it is a size; else None.

    Torch knows of a size that it is not negative, and a call fails for one that is.
    """
    if not isinstance(declared, torch.SymInt) or not declared.node.expr.is_Symbol:
        return None
    expr = declared.node.expr
    ranges = declared.node.shape_env.var_to_range
    if str(expr) not in importer.sized or expr not in ranges or not ranges[expr].lower >= 0:
        return None
    emit = importer.block_builder.emit
    number = emit(relax.op.astype(importer.env[node.args[0]], "int64"))
    return new_size(importer, emit(relax.op.reshape(number, [1])), declared, "item")


def new_size(
    importer: Any, number: Any, declared: torch.SymInt, name: str, valid: Any = None
) -> Any:
    """Return the symbol of a size that is data, by which the program's own is known from now on.

    Args:
        importer: The importer.
        number: The size, a vector of one int64.
        declared: The program's symbol.
        name: A prefix for the name of the symbol.
        valid: A scalar of bool that has to hold.
    """
    (symbol,) = data_sizes(importer.block_builder, number, name, valid)
    importer.data_symbols[str(declared.node.expr)] = importer._symbols[str(declared.node.expr)] = (
        symbol
    )
    return symbol


def check_sizes(importer: Any, declared: Any) -> None:
    """Check that sizes that are computed with data are not negative, before they are allocated."""
    import sympy  # type: ignore[import-untyped]

    for value in declared if isinstance(declared, (tuple, list)) else [declared]:
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            expr = size.node.expr if isinstance(size, torch.SymInt) else None
            if expr is None or expr.is_Symbol or expr in importer.checked_sizes:
                continue
            if any(str(symbol) in importer.data_symbols for symbol in expr.free_symbols):
                importer.checked_sizes.add(expr)
                emit_check(importer.block_builder, sympy.Ge(expr, 0), importer._symbols)
