"""Which node of the model a binding comes from, kept in spans as Relay's importers had them.

A span survives what renames and rewrites: TVM's passes keep those of variables and calls, and
structural equality does not see them. A rewrite of ours that binds anew uses
:func:`with_span`.
"""

from __future__ import annotations

from typing import Any

import tvm


def span(node: str) -> Any:
    """The span that names a node of the model."""
    return tvm.ir.Span(tvm.ir.SourceName(node), 0, 0, 0, 0)


def span_of(binding: Any) -> Any:
    """The span of a binding's variable, or of the call that it is bound to; None without."""
    return binding.var.span or getattr(getattr(binding, "value", None), "span", None)


def node_of(binding: Any) -> str:
    """The model's name of the node that a binding comes from; empty where it is not known."""
    where = span_of(binding)
    return "" if where is None or where.source_name is None else str(where.source_name.name)


def with_span(expr: Any, where: Any) -> Any:
    """A call with a span; what is not a call, or where there is no span, is unchanged."""
    if where is None or not isinstance(expr, tvm.ir.Call) or expr.span is not None:
        return expr
    return tvm.ir.Call(expr.op, expr.args, expr.attrs, expr.ty_args, where)
