"""Check what operators require of sizes: numbers at once, symbolic ones when the model is called.

Before: `lv = R.matmul(x, y)` of (a, n) and (m, b); after, at the start of the function:
`R.match_cast(R.shape([1]), R.Shape([n == m ? 1 : 0]))`, which fails unless n and m are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from ...analysis.support.ir.rewrite_functions import replaced_functions
from ...analysis.support.ir.tensor_dims import required_condition
from ...analysis.support.origin import span_of
from ..checks.size_check import failing, size_check
from ..onnx_graph.scalars import is_var
from ..onnx_graph.size_arithmetic import SizeArithmetic
from .size_conditions import size_conditions

#: Attributes of functions that a pass of TVM fused, or that a backend compiles.
_OPERATOR = ("Primitive", "Composite", "Codegen")


def checked_sizes(mod: tvm.IRModule) -> tvm.IRModule:
    """Return a module that fails where sizes contradict an operator; `mod` is not modified.

    A module that checks all that its operators require is returned unchanged. Functions that stand
    for one operator stay: TVM fuses none with a `match_cast`.

    Raises:
        ValueError: Sizes contradict an operator that each call of an exported function runs.
    """
    return replaced_functions(mod, partial(_checked, mod))


def _checked(mod: Any, func: Any) -> Any:
    if not isinstance(func, relax.Function) or _is_operator(func):
        return func
    return _SizeConditions(mod, func).function()


def _is_operator(func: Any) -> bool:
    return any(key in (func.attrs or {}) for key in _OPERATOR)


class _SizeConditions:
    """The conditions of one function.

    Those on sizes of parameters are checked first, before an operator reads; in a branch, and on
    sizes that are only known at run time, a check stands before its operator. One that holds for no
    sizes is refused where each call runs its operator. Elsewhere it fails when the operator is run.
    """

    def __init__(self, mod: tvm.IRModule, func: relax.Function) -> None:
        self._mod, self._func = mod, func
        self._exported = "global_symbol" in (func.attrs or {})
        self._arithmetic = SizeArithmetic()
        self._given = {id(var) for param in func.params for var in _variables(param.ty)}
        self._first: list[Any] = []
        self._checked: dict[int, list[Any]] = {}

    def function(self) -> relax.Function:
        body = self._sequence(self._func.body, outermost=True)
        if body.same_as(self._func.body) and not self._first:
            return self._func
        first, *rest = body.blocks
        body = relax.SeqExpr([_block(first, self._first, first.bindings), *rest], body.body)
        return relax.Function(self._func.params, body, self._func.ret_ty, self._func.is_pure,
                              self._func.attrs)  # fmt: skip

    def _sequence(self, seq: Any, outermost: bool) -> Any:
        blocks, changed = [], False
        for block in seq.blocks:
            bindings: list[Any] = []
            for binding in block.bindings:
                bindings += [*self._before(binding, outermost), self._inside(binding)]
            if len(bindings) == len(block.bindings) and all(map(_same, bindings, block.bindings)):
                blocks.append(block)
            else:
                blocks.append(_block(block, (), bindings))
                changed = True
        return relax.SeqExpr(blocks, seq.body) if changed else seq

    def _inside(self, binding: Any) -> Any:
        if not isinstance(binding.value, relax.If):
            return binding
        value = binding.value
        branches = [self._sequence(b, outermost=False) for b in
                    (value.true_branch, value.false_branch)]  # fmt: skip
        if all(map(_same, branches, (value.true_branch, value.false_branch))):
            return binding
        return relax.VarBinding(binding.var, relax.If(value.cond, *branches))

    def _before(self, binding: Any, outermost: bool) -> list[Any]:
        """Return the checks that stand before a binding; remember what holds from here on."""
        checks: list[Any] = []
        for requirement in size_conditions(binding, self._mod):
            condition = self._arithmetic.simplify(requirement.condition)
            decided = not isinstance(condition, tvm.ir.Expr)
            if condition if decided else self._holds(condition):
                continue
            if decided:
                text = requirement.contradiction(binding, self._arithmetic.simplify)
                if outermost and self._exported:
                    raise ValueError(text)
                checks.append(_failure(text))
                continue
            if outermost:
                self._learn(condition)
            known = all(id(var) in self._given for var in _variables(condition))
            check = _check(condition, span_of(binding))
            (self._first if outermost and known else checks).append(check)
        if outermost and isinstance(binding, relax.MatchCast):
            own = _cast_sizes(binding.value.ty)
            for got, dim in zip_longest(own, _cast_sizes(binding.ty)):
                if (condition := required_condition(got, dim)) is not None:
                    self._learn(condition)
        return checks

    def _holds(self, condition: Any) -> bool:
        """Return whether a condition always holds, or is checked before."""
        same = self._checked.get(_hash(condition), ())
        checked = any(tvm_ffi.structural_equal(condition, known) for known in same)
        return checked or self._arithmetic.proves(condition)

    def _learn(self, condition: Any) -> None:
        self._checked.setdefault(_hash(condition), []).append(condition)
        if not isinstance(condition, tirx.EQ):
            return
        for var, value in ((condition.a, condition.b), (condition.b, condition.a)):
            if is_var(var) and not any(v.same_as(var) for v in _variables(value)):
                self._arithmetic.learn(var, value)
                return


def _hash(condition: Any) -> int:
    return int(tvm_ffi.structural_hash(condition))


def _cast_sizes(ty: Any) -> Sequence[Any]:
    """Return the sizes of a tensor's type, or of that of a shape."""
    shape = ty if isinstance(ty, relax.ShapeType) else getattr(ty, "shape", None)
    return getattr(shape, "values", None) or ()


def _check(condition: Any, where: Any) -> Any:
    value, ty = size_check(condition)
    return relax.MatchCast(relax.Var("sizes", ty, where), value, ty)


def _failure(text: str) -> Any:
    """Return a cast that fails with a reason."""
    ty = relax.TensorType((), "int64")
    return relax.MatchCast(relax.Var("sizes", ty), failing(text, 0, "int64"), ty)


def _block(block: Any, checks: Sequence[Any], bindings: Sequence[Any]) -> Any:
    return type(block)([*checks, *bindings])


def _variables(node: Any) -> list[Any]:
    variables: list[Any] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, variables.append))
    return variables


def _same(a: Any, b: Any) -> bool:
    return bool(a.same_as(b))
