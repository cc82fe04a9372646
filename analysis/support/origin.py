"""The node of the model that a binding comes from, kept in spans as in Relay's importers.

A span survives passes that rename and rewrite: TVM keeps the spans of variables and calls, and
structural equality ignores them. A rewrite of opinfo that creates a binding uses
:func:`with_span`.
"""

from __future__ import annotations

from typing import Any

import tvm


def span(node: str) -> Any:
    """Return the span that names a node of the model."""
    return tvm.ir.Span(tvm.ir.SourceName(node), 0, 0, 0, 0)


def span_of(binding: Any) -> Any:
    """Return the span of a binding's variable, or of the call bound to it; or None."""
    return binding.var.span or getattr(getattr(binding, "value", None), "span", None)


def node_of(binding: Any) -> str:
    """Return the model's name of the node that a binding comes from; empty if unknown."""
    where = span_of(binding)
    return "" if where is None or where.source_name is None else str(where.source_name.name)


def with_span(expr: Any, where: Any) -> Any:
    """Return a call with a span; other expressions, or without a span, are unchanged."""
    if where is None or not isinstance(expr, tvm.ir.Call) or expr.span is not None:
        return expr
    return tvm.ir.Call(expr.op, expr.args, expr.attrs, expr.ty_args, where)
