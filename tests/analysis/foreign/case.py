"""A foreign PrimFunc, how to write one down, and whether an answer about it is right."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import tvm
from tvm import te

from opinfo.analysis import Refusal
from opinfo.analysis.proposal.proposal import Constant
from opinfo.analysis.results.op_info import Answer, operator
from opinfo.analysis.results.plain_values import to_plain
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.testing.layout_strings import faults

Verdict = Literal["recovered", "refused", "wrong"]


@dataclass(frozen=True)
class Foreign:
    """A program and the operator that it computes; no ``op`` where none does.

    ``attrs`` are all attributes that differ from the constructor's defaults. ``operands`` are in
    order unless given; ``layouts`` are one a parameter. ``also`` are equally right operators with
    all their attributes that differ from the defaults; in a tuple, those without any.
    """

    form: str
    build: Callable[[], Any]
    op: str = ""
    attrs: Mapping[str, Any] = field(default_factory=dict)
    operands: tuple[int | Constant, ...] | None = None
    layouts: tuple[str, ...] | None = None
    also: tuple[str, ...] | Mapping[str, Mapping[str, Any]] = ()


def script(params: str, body: str) -> Callable[[], Any]:
    """TVMScript: ``"x 1,3,8,8; k int8 4,4"`` are the parameters, float32 unless said."""

    def build() -> Any:
        declared = ", ".join(_param(p) for p in params.split(";"))
        inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        text = (
            f"from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef main({declared}):\n"
        )
        return tvm.script.from_source(f"# {text}{inside}\n")

    return build


def _param(text: str) -> str:
    name, *rest = text.split()
    dtype, dims = ("float32", rest[0]) if len(rest) == 1 else rest
    shape = "" if dims == "()" else dims.rstrip(",") + ","
    return f'{name}: T.Buffer(({shape}), "{dtype}")'


def tensors(fn: Callable[..., Any], *types: str) -> Callable[[], Any]:
    """A tensor expression of placeholders: ``"1,3,8,8"`` or ``"int8 4,4"``."""

    def build() -> Any:
        args = []
        for k, text in enumerate(types):
            dtype, dims = ("float32", text) if " " not in text else text.split()
            shape = [int(d) for d in dims.split(",") if d]
            args.append(te.placeholder(shape, dtype, name=f"a{k}"))
        with tvm.target.Target("llvm"):
            results = fn(*args)
        outs = list(results) if not isinstance(results, te.Tensor) else [results]
        return te.create_prim_func([*args, *outs])

    return build


def judge(case: Foreign, found: Answer) -> tuple[Verdict, str]:
    """Whether an answer is the expected one, and what is not as expected."""
    info = operator(found)
    if isinstance(found, Refusal) or info is None:
        return "refused", repr(found)
    if wrong := faults(found):
        return "wrong", f"layout strings {wrong}"
    if not case.op:
        return "wrong", f"no operator computes this, but: {info!r}"
    attrs = dict(case.attrs)
    if info.name != case.op:
        others = case.also if isinstance(case.also, Mapping) else {name: {} for name in case.also}
        if info.name not in others:
            return "wrong", repr(info)
        attrs = dict(others[info.name])
    given = defaults(info.name)
    if len(set(given.get("padding") or ())) == 1:
        given["padding"] = given["padding"][0]
    expected = {**given, **attrs}
    for key, value in info.attrs.items():
        if key in ("out_layout",) and expected.get(key) is None:
            expected[key] = expected.get("data_layout", expected.get("layout"))
        if not _same(to_plain(value), to_plain(expected.get(key))):
            return "wrong", f"{key}: expected {expected.get(key)!r}: {info!r}"
    missing = [k for k in attrs if k not in info.attrs]
    if missing:
        return "wrong", f"no {missing}: {info!r}"
    if case.operands is not None and info.operands != case.operands:
        return "wrong", f"operands {info.operands}: {info!r}"
    if case.layouts is not None and found.layouts != case.layouts:
        return "wrong", f"layouts {found.layouts}: {found!r}"
    return "recovered", ""


def defaults(name: str) -> dict[str, Any]:
    """What the operator's constructor takes an argument to be that is not given."""
    found = inspect.signature(constructor_of(name)).parameters.values()
    return {p.name: p.default for p in found if p.default is not p.empty}


def _same(got: Any, want: Any) -> bool:
    """Equal; one number for every dimension is that number repeated."""
    if isinstance(got, list) and isinstance(want, (int, float)):
        return all(g == want for g in got)
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(map(_same, got, want))
    if isinstance(got, float) and isinstance(want, float):
        return abs(got - want) <= 1e-6 * max(1.0, abs(want))
    return bool(got == want)
