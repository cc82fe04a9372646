"""Lower the calls of a recogniser's ``MATCHES``, and check answers against them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any

from tvm import relax, tirx

from ..analysis import Constant, OpInfo
from ..analysis.proposal.call_op import call_op
from ..analysis.proposal.legalise import legalise_module
from ..analysis.recognise import Matches
from ..analysis.results.plain_values import to_plain
from .layout_strings import faults

Sizes = dict[str, tirx.Var]


def lower(case: Matches) -> tirx.PrimFunc:
    """Return the PrimFunc that a call legalises to."""
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
    mod = legalise_module(builder.get())
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
    return func


def _operand(name: str, text: str, sizes: Sizes) -> Any:
    """Convert ``"float32[1, n]"`` to a Relax variable, ``"float32(0.5)"`` to a constant."""
    literal = re.fullmatch(r"(\w+)\((.*)\)", text)
    if literal and _is_number(literal[2]):
        return relax.const(float(literal[2]), literal[1])
    parsed = re.fullmatch(r"(\w+)\[(.*)\]", text)
    assert parsed, (
        f"the operand {text!r}: expected dtype[shape] or dtype(value), such as 'float32[1, 3, n]' "
        "or 'int8(3)'"
    )
    dims = [d.strip() for d in parsed[2].split(",") if d.strip()]
    shape = [int(d) if d.isdigit() else sizes.setdefault(d, tirx.Var(d, "int64")) for d in dims]
    return relax.Var(name, relax.TensorType(shape, parsed[1]))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _with_sizes(value: Any, sizes: Sizes) -> Any:
    """Replace names of sizes in an attribute by variables."""
    if isinstance(value, (list, tuple)):
        return type(value)(_with_sizes(v, sizes) for v in value)
    if isinstance(value, str) and re.fullmatch("[a-z]", value):
        return sizes.setdefault(value, tirx.Var(value, "int64"))
    return value


def check_answer(case: Matches, info: OpInfo) -> None:
    """Check that an answer is the op, its canonical form, or one that lowers identically."""
    assert not info.relaid, f"the buffers have unexpected layouts: {info!r}"
    assert not (wrong := faults(info)), f"wrong layout strings: {wrong}"
    assert info.certificate.kind in ("rebuilt", "proved", "extern", "real")
    if info.name == (case.name or case.op):
        _check_attrs(case.attrs if case.expect is None else case.expect, info)
    elif info.name == case.op:
        _check_attrs(case.attrs, info)
    else:
        assert case.name is not None and info.certificate.kind == "rebuilt", f"got {info!r}"
    if case.name is None:
        _check_operands(case, info)


def _check_attrs(expected: Mapping[str, Any], info: OpInfo) -> None:
    for key, value in expected.items():
        assert key in info.attrs, f"attribute {key} is missing: {info!r}"
        actual = to_plain(info.attrs[key])
        assert _same(actual, to_plain(value)), f"{key} is {actual}, expected {value}: {info!r}"


def _check_operands(case: Matches, info: OpInfo) -> None:
    """Check that operands are parameters in order, and literals with value and dtype."""
    count = itertools.count() if case.places is None else iter(case.places)
    for text, got in zip(case.operands, info.operands, strict=True):
        if "(" not in text:
            assert got == next(count), f"wrong order of operands: {info!r}"
        else:
            assert isinstance(got, Constant) and f"{got.dtype}({got.value})" == text, (
                f"got {got!r}, expected {text}"
            )


def _same(got: Any, expected: Any) -> bool:
    """Return whether values and types are equal; names of sizes are ignored."""
    if isinstance(expected, list):
        return (
            isinstance(got, list) and len(got) == len(expected) and all(map(_same, got, expected))
        )
    if isinstance(got, str) and isinstance(expected, str):
        return got == expected or not expected.isalpha() or len(expected) == 1
    return type(got) is type(expected) and bool(got == expected)
