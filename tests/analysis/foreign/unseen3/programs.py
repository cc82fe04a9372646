"""How programs of this family are written: parameters and loops, with sizes or symbols."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import tvm
from tvm import s_tir

from opinfo.analysis import Constant
from opinfo.analysis.support.ir.deep_copy import copied

from ..case import Foreign, script

LOW = "T.float32(-3.4028234663852886e+38)"
HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"


def program(
    form: str,
    params: str,
    body: str,
    op: str = "",
    operands: tuple[int | Constant, ...] | None = None,
    also: tuple[str, ...] | Mapping[str, Mapping[str, Any]] = (),
    **attrs: Any,
) -> Foreign:
    """A program of plain loops; a name as a dimension is a symbolic extent."""
    return Foreign(form, partial(written, params, body), op, attrs, operands, also=also)


def written(params: str, body: str) -> Any:
    """The PrimFunc with these parameters and this body."""
    names = any(c.isalpha() for text in params.split(";") for c in text.split()[-1])
    return (symbolic if names else script)(params, body)()


def changed(
    why: str, case: Foreign, *steps: tuple[str, str], op: str = "", **attrs: Any
) -> Foreign:
    """The program with parts of its text replaced; no operator computes it unless given."""
    assert isinstance(case.build, partial)
    params, body = case.build.args
    for old, new in steps:
        assert old in body, (case.form, old)
        body = body.replace(old, new)
    return Foreign(why, partial(written, params, body), op, attrs)


def symbolic(params: str, body: str) -> Callable[[], Any]:
    """TVMScript with symbolic extents: ``"x n,4; out float16 n"``."""

    def build() -> Any:
        declared = [p.split() for p in params.split(";")]
        dims = [d for *_, shape in declared for d in shape.split(",") if d]
        lines = [f"{d} = T.int64()" for d in dict.fromkeys(dims) if d.isidentifier()]
        for name, *dtype, shape in declared:
            kind = dtype[0] if dtype else "float32"
            lines.append(f'{name} = T.match_buffer(p_{name}, ({shape},), "{kind}")')
        head = ", ".join(f"p_{name}: T.handle" for name, *_ in declared)
        inside = "\n".join(lines) + "\n" + textwrap.dedent(body).strip("\n")
        text = f"def main({head}):\n" + textwrap.indent(inside, "    ") + "\n"
        return tvm.script.from_source(HEADER + text)

    return build


def scheduled(build: Callable[[], Any], *steps: Callable[[Any], object]) -> Callable[[], Any]:
    """A program after steps of a schedule."""

    def changed() -> Any:
        func = copied(build()).with_attr("global_symbol", "main")
        schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
        for step in steps:
            step(schedule)
        return schedule.mod["main"]

    return changed


def lowered(build: Callable[[], Any], *passes: Any) -> Callable[[], Any]:
    """A program after some of TVM's lowering passes."""

    def changed() -> Any:
        mod = tvm.IRModule({"main": build().with_attr("global_symbol", "main")})
        return tvm.transform.Sequential(list(passes))(mod)["main"]

    return changed
