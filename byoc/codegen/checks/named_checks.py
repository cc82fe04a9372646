"""Checks of sizes that name the model's node, what was got and what was expected.

Before: `match_cast(shape([1]), Shape([n == m ? 1 : 0]))`, of the node "mm"; after::

    expected = R.call_packed("relax.run.shape_to_tensor", R.shape([m]))
    match_cast(R.call_packed("vm.builtin.match_shape", R.shape([n]), expected, 1, 3, 0, TEXT))
    match_cast(shape([1]), Shape([n == m ? 1 : 0]))

TVM's message of a cast has the type alone. Its function that compares a shape with numbers takes a
text, to which it adds the two numbers. Casts on sizes of parameters alone have no such check: they
are conditions of the function's signature, which the boundary checks first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ....analysis.support.failed_check import BOUND, check_text
from ....analysis.support.ir.rewrite_functions import replaced_functions
from ....analysis.support.ir.tensor_dims import required_condition, text_of_size
from ....analysis.support.origin import node_of

#: The codes of TVM's function for an element that is compared with a number, is not, or with one
#: of a tensor.
_NUMBER, _ANY, _LOADED = 0, 2, 3
#: What a number has to be that is compared, as words, and what is added to the bound.
_RELATIONS: dict[Any, tuple[str, int]] = {
    tirx.EQ: ("", 0), tirx.GE: ("at least ", 0), tirx.LE: ("at most ", 0),
    tirx.GT: ("at least ", 1), tirx.LT: ("at most ", -1),
}  # fmt: skip


@dataclass(frozen=True)
class _Check:
    """What is compared with what in an element of a shape, and what it has to be, in words."""

    got: Any
    bound: Any
    words: str
    condition: Any


def named_checks(mod: Any) -> Any:
    """Return the module with checks that name their node; `mod` is not changed."""
    return replaced_functions(mod, _function)


def _function(func: Any) -> Any:
    if not isinstance(func, relax.Function):
        return func
    given = [v for param in func.params for v in _variables(param.ty)]
    exported = "global_symbol" in (func.attrs or {})
    body = _sequence(func.body, given, given if exported else [])
    if body.same_as(func.body):
        return func
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)


def _sequence(seq: Any, known: Sequence[Any], outer: Sequence[Any]) -> Any:
    """Return a sequence with checks; conditions on symbols of `outer` alone have none."""
    blocks, changed, known = [], False, list(known)
    for block in seq.blocks:
        bindings: list[Any] = []
        for binding in block.bindings:
            if isinstance(binding, relax.MatchCast):
                bindings += _checks(binding, known, outer, isinstance(block, relax.DataflowBlock))
                known += _variables(binding.ty)
            bindings.append(_inside(binding, known))
        same = len(bindings) == len(block.bindings) and all(
            a.same_as(b) for a, b in zip(bindings, block.bindings, strict=True))  # fmt: skip
        blocks.append(block if same else type(block)(bindings))
        changed = changed or not same
    return relax.SeqExpr(blocks, seq.body) if changed else seq


def _inside(binding: Any, known: Sequence[Any]) -> Any:
    value = binding.value
    if not isinstance(value, relax.If):
        return binding
    branches = [_sequence(b, known, []) for b in (value.true_branch, value.false_branch)]
    if all(a.same_as(b) for a, b in zip(branches, (value.true_branch, value.false_branch),
                                        strict=True)):  # fmt: skip
        return binding
    return relax.VarBinding(binding.var, relax.If(value.cond, *branches))


def _checks(cast: Any, known: Sequence[Any], outer: Sequence[Any], dataflow: bool) -> Iterator[Any]:
    """Yield the bindings of the checks before a cast."""
    node = "".join(c if c.isprintable() else "?" for c in node_of(cast))
    start = f"{node}: " if node else ""
    own, expected = _sizes(cast)
    if own is None:
        yield from _of_numbers(cast, expected, start)
        return
    for got, size in zip(own, expected, strict=False):
        symbols = _variables(got) + _variables(size)
        if all(_is_in(v, outer) for v in symbols) or not all(_is_in(v, known) for v in symbols):
            continue
        for check in _compared(got, size):
            yield from _comparison(check, start, dataflow)


def _sizes(cast: Any) -> tuple[Sequence[Any] | None, Sequence[Any]]:
    """Return the sizes of what is cast, None if they are unknown, and those of the type."""
    value, ty = cast.value, cast.ty
    expected = getattr(ty if isinstance(ty, relax.ShapeType) else getattr(ty, "shape", None),
                       "values", None) or ()  # fmt: skip
    if isinstance(ty, relax.ShapeType):
        own = value if isinstance(value, relax.ShapeExpr) else value.ty
    else:
        own = getattr(value.ty, "shape", None)
    return getattr(own, "values", None), expected


def _of_numbers(cast: Any, expected: Sequence[Any], start: str) -> Iterator[Any]:
    """Yield a check of each number of a type, of a value whose sizes are unknown."""
    is_data = isinstance(cast.ty, relax.ShapeType)
    for axis, size in enumerate(expected):
        if isinstance(size, tirx.IntImm):
            codes = [c for k in range(len(expected)) for c in (
                (_NUMBER, int(size)) if k == axis else (_ANY, 0))]  # fmt: skip
            text = (f"{start}a size that is data: expected 0 or more, and sizes that fit together"
                    if is_data else f"{start}size {axis}: expected {BOUND}")  # fmt: skip
            yield _called(cast.value, relax.op.null_value(), codes, text)


def _compared(got: Any, size: Any) -> Iterator[_Check]:
    """Yield what a cast compares; a size that fails unless a condition holds stands for that."""
    if (condition := required_condition(got, size)) is not None:
        yield from _conjuncts(condition)
        yield from _compared(got, size.true_value)
    elif not got.same_as(size) and not tvm_ffi.structural_equal(got, size):
        yield from _conjuncts(tirx.EQ(got, size))


def _conjuncts(condition: Any) -> Iterator[_Check]:
    if isinstance(condition, tirx.And):
        yield from _conjuncts(condition.a)
        yield from _conjuncts(condition.b)
    elif (relation := _RELATIONS.get(type(condition))) and str(condition.a.ty.dtype) == "int64":
        words, more = relation
        bound = condition.b + tirx.IntImm("int64", more) if more else condition.b
        yield _Check(condition.a, bound, f"{words}{BOUND}", condition)
    else:
        one, zero = tirx.IntImm("int64", 1), tirx.IntImm("int64", 0)
        yield _Check(tirx.Select(condition, one, zero), one, "", condition)


def _comparison(check: _Check, start: str, dataflow: bool) -> Iterator[Any]:
    """Yield the bindings that compare two numbers, and fail unless the condition holds."""
    said = text_of_size(check.condition)
    text = f"{start}the sizes contradict it ({said}): expected {check.words}"
    if not check.words:
        text = f"{start}the sizes contradict it: not {said}"
    bound = check.bound
    if not isinstance(check.condition, tirx.EQ) and check.words:
        bound = tirx.Select(check.condition, check.got, bound)
    ty = relax.TensorType((1,), "int64")
    call = relax.call_pure_packed("relax.run.shape_to_tensor", relax.ShapeExpr([bound]), ty_args=ty)
    var = (relax.DataflowVar if dataflow else relax.Var)("expected", ty)
    yield relax.VarBinding(var, call)
    yield _called(relax.ShapeExpr([check.got]), var, [_LOADED, 0], text)


def _called(value: Any, numbers: Any, codes: Sequence[int], text: str) -> Any:
    """Return the cast, which no pass drops, of a call that compares a shape with numbers."""
    ty = relax.ObjectType()
    call = relax.call_pure_packed(
        "vm.builtin.match_shape", value, numbers, relax.prim_value(len(codes) // 2),
        *map(relax.prim_value, codes), check_text(text), ty_args=ty,
    )  # fmt: skip
    return relax.MatchCast(relax.Var("compared", ty), call, ty)


def _variables(node: Any) -> list[Any]:
    variables: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, variables.append))
    return variables


def _is_in(var: Any, variables: Sequence[Any]) -> bool:
    return any(var.same_as(other) for other in variables)
