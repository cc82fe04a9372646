"""Format one result as a call, an explanation or HTML."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ..analysis import Constant, LayoutNormalised, OpInfo, Refusal, Step, StepResult
from ..analysis.results.op_info import Answer
from ..analysis.support.ir.constructors import constructor_of
from ..analysis.support.wording import plural
from .printable import printable

_MISSING = object()


def call(info: OpInfo | LayoutNormalised) -> str:
    """Format a call `relax.nn.conv2d(%0, %1, strides=[2, 2])` without default attributes."""
    op = info if isinstance(info, OpInfo) else info.logical
    return _call(info, [_operand(operand) for operand in op.operands])


def step(chain_step: Step) -> str:
    """Format a step of a chain: `relax.add($0, %2)`, where `$0` is an earlier step."""
    return _call(
        chain_step.info,
        [repr(o) if isinstance(o, StepResult) else _operand(o) for o in chain_step.operands],
    )


def _call(info: OpInfo | LayoutNormalised, operands: list[str]) -> str:
    if isinstance(info, LayoutNormalised):
        where = ", ".join(f"%{k} at {text}" for k, text in enumerate(info.places) if text)
        return f"layout_normalised({_call(info.logical, operands)}; {where})"
    usual = _defaults(info.name)
    attrs = info.to_json()["attrs"]
    usual["out_layout"] = attrs.get("data_layout", attrs.get("layout"))
    named = [f"{k}={_short(v)}" for k, v in attrs.items() if not _same(v, usual.get(k, _MISSING))]
    return f"{info.name}({', '.join([*operands, *named])})"


def explain(func: str, sites: int, buffers: tuple[str, ...], result: Answer) -> str:
    """Explain one PrimFunc, with one fact on each line."""
    lines = "".join(f"\n  %{i}: {printable(text)}" for i, text in enumerate(buffers))
    head = f"{printable(func)} ({plural(sites, 'call site')}){lines}"
    if isinstance(result, Refusal):
        where = f"\n  where: {printable(result.where)}" if result.where else ""
        return f"{head}\n  not recognised: {printable(result.reason)}{where}"
    return "\n".join([head, *(f"  {key}: {printable(value)}" for key, value in _facts(result))])


def _facts(answer: OpInfo | LayoutNormalised) -> list[tuple[str, str]]:
    info = answer if isinstance(answer, OpInfo) else answer.logical
    values = info.to_json()
    certificate = info.certificate
    places = answer.layouts if isinstance(answer, OpInfo) else answer.places
    exact = "bit-equal" if certificate.exact else "equal up to the assumptions"
    facts = [
        ("operator", answer.name if isinstance(answer, OpInfo) else answer.label),
        ("operands", ", ".join(_operand(o) for o in info.operands) or "none"),
        ("attributes", ", ".join(f"{k}={_short(v)}" for k, v in values["attrs"].items()) or "none"),
        ("kind", info.kind),
        ("layouts", ", ".join(f"%{i}: {text}" for i, text in enumerate(places) if text)),
        ("not determined by the compute", "; ".join(map(str, info.undetermined))),
        ("also", "; ".join(call(alternative) for alternative in info.alternatives)),
        ("certificate", f"{certificate.kind}, {exact}"),
        ("assumes", "; ".join(certificate.assumptions)),
    ]
    facts += [("discharged", f"{o.goal} [{o.engine}, {o.ms:.1f} ms]")
              for o in certificate.obligations]  # fmt: skip
    return [(key, value) for key, value in facts if value]


def html(rows: Sequence[tuple[str, int, str, tuple[str, ...], Answer]], summary: str) -> str:
    """Return a table for notebooks in which each operator unfolds to its explanation.

    A row is a name, a number of call sites, the output and all buffers as text, and the answer.
    """
    body = "".join(_html_row(*row) for row in rows)
    heads = "".join(
        f"<th style='text-align:left'>{head}</th>"
        for head in ("PrimFunc", "sites", "output", "operator", "kind", "certificate")
    )
    return f"<table><tr>{heads}</tr>{body}</table><p>{escape(summary)}</p>"


def _html_row(func: str, sites: int, output: str, buffers: tuple[str, ...], result: Answer) -> str:
    if not isinstance(result, Refusal):
        short, kind, certificate = call(result), str(result.kind), str(result.certificate.kind)
    else:
        short, kind, certificate = f"? {result.reason}", "", ""
    more = f"<pre>{escape(explain(func, sites, buffers, result))}</pre>"
    operator = f"<details><summary><code>{escape(short)}</code></summary>{more}</details>"
    name, shape = (f"<code>{escape(text)}</code>" for text in (func, output))
    cells = (name, str(sites), shape, operator, escape(kind), certificate)
    return "<tr>" + "".join(f"<td style='text-align:left'>{c}</td>" for c in cells) + "</tr>"


def _short(value: Any) -> str:
    """Format a float32 value with its own digits: 1e-05 for 1.0000000656873453e-05."""
    if isinstance(value, float) and float(np.float32(value)) == value:
        return str(np.float32(value))
    return repr(value)


def _operand(operand: int | Constant) -> str:
    return _short(operand.value) if isinstance(operand, Constant) else f"%{operand}"


def _same(value: Any, usual: Any) -> bool:
    """Return whether an attribute is the default; a number stands for all entries of a list."""
    if isinstance(value, list) and isinstance(usual, int | tuple):
        wide = (usual,) if isinstance(usual, int) else usual
        return value == list(wide) or {*wide} == {*value} == {*value[:1]}
    return bool(value == usual)


def _defaults(name: str) -> dict[str, Any]:
    """Return the default arguments of an operator's constructor."""
    constructor = constructor_of(name)
    if not callable(constructor):
        return {}
    return {p.name: p.default for p in inspect.signature(constructor).parameters.values()
            if p.default is not p.empty}  # fmt: skip
