"""A variant as a legalised PrimFunc, and what is known of it because it was built."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from opinfo.analysis.proposal.call_op import call_op

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
    return relax.Var(name, relax.TensorType(dimensions(parsed[2], sizes), parsed[1]))


def dimensions(text: str, sizes: Sizes) -> list[Any]:
    """``"1, (n + 1) // 2, min(n, m)"`` as expressions; numbers where all sizes are."""
    return [_dimension(e, sizes) for e in ast.parse(f"[{text}]", mode="eval").body.elts]  # type: ignore[attr-defined]


def _dimension(node: ast.expr, sizes: Sizes) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return size(node.id, sizes)
    if isinstance(node, ast.UnaryOp):
        return -_dimension(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        operation = _OPERATIONS[type(node.op)]
        return operation(_dimension(node.left, sizes), _dimension(node.right, sizes))
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name), ast.dump(node)
    plain, symbolic = _EXTREMES[node.func.id]
    args = [_dimension(a, sizes) for a in node.args]
    return plain(args) if all(isinstance(a, int) for a in args) else symbolic(*args)


_OPERATIONS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_EXTREMES: dict[str, Any] = {"min": (min, tirx.min), "max": (max, tirx.max)}


def size(letter: str, sizes: Sizes) -> Any:
    return sizes.setdefault(letter, tirx.Var(letter, "int64"))


def with_sizes(value: Any, sizes: Sizes) -> Any:
    """Attribute values in which the name of a size stands for it; ``"=n + 1"`` is a sum,
    ``"i, j -> j, i"`` an index map, ``"int8(3)"`` a constant."""
    if isinstance(value, (list, tuple)):
        return type(value)(with_sizes(v, sizes) for v in value)
    if isinstance(value, str) and value.startswith("="):
        return dimensions(value[1:], sizes)[0]
    if isinstance(value, str) and (parsed := re.fullmatch(r"(\w+)\((.*)\)", value)):
        return relax.const(ast.literal_eval(parsed[2]), parsed[1])
    if isinstance(value, str) and " -> " in value:
        names, _, images = value.partition(" -> ")
        keys = names.split(", ")
        return tirx.IndexMap.from_func(
            lambda *at: dimensions(images, dict(zip(keys, at, strict=True))), len(keys)
        )
    if isinstance(value, str) and re.fullmatch("[a-z]", value):
        return size(value, sizes)
    return value


def unlegalised(
    op: str,
    operands: list[Any],
    attrs: Mapping[str, Any],
    dtype: str,
    extra: Sequence[Any] = (),
    params: Sequence[Any] | None = None,
) -> Any:
    """A module whose ``main`` is the one call. Whatever TVM raises is left to the caller."""
    builder = relax.BlockBuilder()
    call = builder.normalize(call_op(op, operands, attrs, dtype))
    with builder.function("main", [*(operands if params is None else params), *extra]):
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
    with tvm.target.Target("llvm"):
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
