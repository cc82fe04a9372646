"""A variant as a legalised PrimFunc, and what is known of it because it was built."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.build import call_op

from . import Variant

Sizes = dict[str, Any]


class Unlowered(Exception):
    """TVM does not make one PrimFunc of the call: ``args[0]`` says what it makes, or its error."""


@dataclass(frozen=True)
class Lowered:
    """``operands`` are the positions of the call's tensors among the PrimFunc's parameters."""

    func: Any
    call: Any
    operands: tuple[int, ...]
    sizes: Mapping[str, Any]


def tensor(name: str, text: str, sizes: Sizes) -> Any:
    """``"float32[1, n]"`` as a Relax variable."""
    parsed = re.fullmatch(r"(\w+)\[(.*)\]", text)
    assert parsed, f"{text!r}: expected a type such as 'float32[1, 3, n]'"
    dims = [d.strip() for d in parsed[2].split(",") if d.strip()]
    shape = [int(d) if d.isdigit() else size(d, sizes) for d in dims]
    return relax.Var(name, relax.TensorType(shape, parsed[1]))


def size(letter: str, sizes: Sizes) -> Any:
    return sizes.setdefault(letter, tirx.Var(letter, "int64"))


def with_sizes(value: Any, sizes: Sizes) -> Any:
    """Attribute values in which the name of a size stands for it."""
    if isinstance(value, (list, tuple)):
        return type(value)(with_sizes(v, sizes) for v in value)
    if isinstance(value, str) and re.fullmatch("[a-z]", value):
        return size(value, sizes)
    return value


def unlegalised(
    op: str, operands: list[Any], attrs: Mapping[str, Any], dtype: str, extra: Sequence[Any] = ()
) -> Any:
    """A module whose ``main`` is the one call. Whatever TVM raises is left to the caller."""
    builder = relax.BlockBuilder()
    call = builder.normalize(call_op(op, operands, attrs, dtype))
    with builder.function("main", [*operands, *extra]):
        with builder.dataflow():
            out = builder.emit_output(call)
        builder.emit_func_output(out)
    return builder.get()


def legalised(v: Variant, operands: list[Any], sizes: Sizes) -> tuple[Any, Any]:
    """The call, and the module after LegalizeOps."""
    attrs = {k: with_sizes(a, sizes) for k, a in v.attrs.items()}
    extra = [relax.Var("sizes", relax.ShapeType(list(sizes.values())))] if sizes else []
    mod = unlegalised(v.op, operands, attrs, v.literal, extra)
    call = next(b.value for block in mod["main"].body.blocks for b in block.bindings)
    return call, relax.transform.LegalizeOps()(relax.backend.DispatchSortScan()(mod))


def _types(ty: Any) -> list[Any]:
    return list(ty.fields) if hasattr(ty, "fields") else [ty]


def lower(v: Variant) -> Lowered:
    """The only PrimFunc that the variant legalises to; raises `Unlowered`."""
    sizes: Sizes = {}
    operands = [tensor(f"p{k}", text, sizes) for k, text in enumerate(v.operands)]
    try:
        call, mod = legalised(v, operands, sizes)
    except Exception as e:  # TVM rejects calls by all kinds of exceptions
        lines = [s.strip() for s in str(e).splitlines() if s.strip()]
        raise Unlowered(f"rejected: {(lines or [repr(e)])[-1][:120]}") from None
    values = {b.var: b.value for block in mod["main"].body.blocks for b in block.bindings}
    calls = [c for c in values.values() if isinstance(c, tvm.ir.Call)]
    names = [str(getattr(c.op, "name", "")) for c in calls]
    if names != ["relax.call_tir"]:
        raise Unlowered(f"lowers to {', '.join(names) or 'no call'}")
    if any(isinstance(e, tirx.IntImm) and e.value < 1 for t in _types(call.ty) for e in t.shape):
        raise Unlowered("the output is empty")
    places = {}
    for k, a in enumerate(calls[0].args[1].fields):
        a = values.get(a, a)
        if isinstance(a, relax.TupleGetItem):
            a = a.tuple_value.fields[a.index]
        places[str(getattr(a, "name", ""))] = k
    wanted = [f"p{k}" for k in range(len(operands))]
    at = tuple(places.get(w, -1) for w in wanted)
    return Lowered(mod[calls[0].args[0]], call, at, sizes)
