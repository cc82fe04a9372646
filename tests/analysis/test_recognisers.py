"""Every case of every recogniser: its matches come back, also scheduled; its refusals do not."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis.answer.recover import op_info
from opinfo.analysis.proposal.build import call_op
from opinfo.analysis.proposal.legalise import lowered
from opinfo.analysis.proposal.proposal import Constant
from opinfo.analysis.recognise import Matches, Refuses, modules, recognisers
from opinfo.analysis.results.op_info import OpInfo, Refusal, to_plain
from tests.analysis.reschedule import reschedule
from tests.rebuild import check_rebuilt
from tests.strings import faults
from tests.strip import strip

SCHEDULES = 2
Sizes = dict[str, tirx.Var]


def _cases(kind: str) -> Iterator[Any]:
    for module in modules():
        short = module.__name__.rsplit(".", 1)[-1]
        for k, case in enumerate(getattr(module, kind, ())):
            label = case.op.removeprefix("relax.") if kind == "MATCHES" else case.why
            yield pytest.param(module.__name__, case, id=f"{short}-{k}-{label}")


# ---------------------------------------------------------------------------- building a case


def _operand(name: str, text: str, sizes: Sizes) -> Any:
    """``"float32[1, n]"`` as a Relax variable, ``"float32(0.5)"`` as a constant."""
    if literal := re.fullmatch(r"(\w+)\((.*)\)", text):
        return relax.const(float(literal[2]), literal[1])
    parsed = re.fullmatch(r"(\w+)\[(.*)\]", text)
    assert parsed, f"{text!r}: expected a type such as 'float32[1, 3, n]'"
    dims = [d.strip() for d in parsed[2].split(",") if d.strip()]
    shape = [int(d) if d.isdigit() else sizes.setdefault(d, tirx.Var(d, "int64")) for d in dims]
    return relax.Var(name, relax.TensorType(shape, parsed[1]))


def _with_sizes(value: Any, sizes: Sizes) -> Any:
    """Attribute values in which the name of a size stands for it."""
    if isinstance(value, (list, tuple)):
        return type(value)(_with_sizes(v, sizes) for v in value)
    if isinstance(value, str) and re.fullmatch("[a-z]", value):
        return sizes.setdefault(value, tirx.Var(value, "int64"))
    return value


def lower(case: Matches) -> tirx.PrimFunc:
    """The only PrimFunc that the call legalises to."""
    sizes: Sizes = {}
    operands = [_operand(f"p{k}", text, sizes) for k, text in enumerate(case.operands)]
    attrs = {k: _with_sizes(v, sizes) for k, v in case.attrs.items()}
    dtype = str(operands[0].ty.dtype) if operands else str(attrs.get("dtype", "float32"))
    extra = [relax.Var("sizes", relax.ShapeType(list(sizes.values())))] if sizes else []
    builder = relax.BlockBuilder()
    call = builder.normalize(call_op(case.op, operands, attrs, dtype))
    params = [o for o in operands if isinstance(o, relax.Var)]
    with builder.function("main", [*params, *extra]):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    mod = lowered(builder.get())
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func


# ---------------------------------------------------------------------------- comparing


def check(case: Matches, info: OpInfo) -> None:
    """The op itself, or the canonical one; where several ops lower alike, any that lowers so."""
    assert not info.relaid and not faults(info)
    assert info.certificate.kind in ("rebuilt", "proved", "real")
    if info.name == (case.name or case.op):
        _check_attrs(case.attrs if case.expect is None else case.expect, info)
    elif info.name == case.op:
        _check_attrs(case.attrs, info)
    else:
        assert case.name is not None and info.certificate.kind == "rebuilt", f"{info!r}"
    if case.name is None:
        _check_operands(case, info)


def _check_attrs(expected: Mapping[str, Any], info: OpInfo) -> None:
    for key, value in expected.items():
        assert key in info.attrs, f"attribute {key} of {info!r}"
        assert _same(to_plain(info.attrs[key]), to_plain(value)), f"{key}: {info!r}"


def _check_operands(case: Matches, info: OpInfo) -> None:
    """Parameters in their order; what is literal has its value and type."""
    count = itertools.count() if case.places is None else iter(case.places)
    for text, got in zip(case.operands, info.operands, strict=True):
        if "(" not in text:
            assert got == next(count), f"{info!r}"
        else:
            assert isinstance(got, Constant) and f"{got.dtype}({got.value})" == text


def _same(got: Any, want: Any) -> bool:
    """Equal values of equal types; names of sizes are gone, so any polynomial is as good."""
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(_same, got, want))
    if isinstance(got, str) and isinstance(want, str):
        return got == want or not want.isalpha() or len(want) == 1
    return type(got) is type(want) and bool(got == want)


# ---------------------------------------------------------------------------- the tests


@pytest.mark.parametrize(("module", "case"), list(_cases("MATCHES")))
def test_match(module: str, case: Matches) -> None:
    func = strip(lower(case))
    info = op_info(func)
    assert isinstance(info, OpInfo), info
    check(case, info)
    check_rebuilt(func, info)
    for k in range(SCHEDULES):
        again = reschedule(func, zlib.crc32(repr(case).encode()) + k)
        found = op_info(again)
        if isinstance(found, Refusal) or found.relaid:
            continue  # right, but less than could be said: counted by benchmarks/
        if found.certificate.kind == info.certificate.kind:
            assert (found.name, found.attrs.keys()) == (info.name, info.attrs.keys())
        check(case, found)


@pytest.mark.parametrize(("module", "case"), list(_cases("REFUSES")))
def test_refusal(module: str, case: Refuses) -> None:
    func = tvm.script.from_source(case.script)
    ops = {op for r in recognisers() if r.run.__module__ == module for op in r.ops}
    info = op_info(func)
    if isinstance(info, OpInfo) and not info.relaid:
        assert info.name not in ops, f"{case.why}: {info!r}"


def test_operators_have_cases() -> None:
    """An op that a recogniser declares is in a case of its file."""
    missing = {}
    for module in modules():
        shown = {op for case in getattr(module, "MATCHES", ()) for op in (case.op, case.name)}
        own = {op for r in recognisers() if r.run.__module__ == module.__name__ for op in r.ops}
        if own - shown:
            missing[module.__name__.rsplit(".", 1)[-1]] = sorted(own - shown)
    assert not missing
