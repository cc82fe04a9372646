"""Products of numbers that are dequantised first, as products of their 8 bits, scaled afterwards.

Before: y = R.matmul(R.dequantize(x, s, z), R.dequantize(w, t, 0))          x, w: int8
After:  n = R.nn.transposed_matmul(x, w', out_dtype="int32")                w': w transposed
        y = R.astype(n - z * sum(w), "float32") * (s * t)

    R.matmul(R.astype(x, "float32") * s, R.astype(w, "float32") * t)        x, w: float8
    R.nn.transposed_matmul(x, w', out_dtype="float32") * (s * t)

Sums of int8 are exact: of fewer than 2**16 terms, none exceeds an int32. uint8 is read as int8 with
another zero point. In float8 the scales are applied to the sum instead of each term. Scales must
not vary along the axis that is summed. The backend says which extents it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from ....analysis.composites.products import TRANSPOSED_MATMUL, transposed_matmul
from ....analysis.support.tvm_compat import GenericConst, array_of
from ....analysis.support.warn import warn
from ...patterns.extents.symbolic_extents import extent_of
from ..mutation.mutate import mutated, named
from .codes import FLOAT8, Codes, codes, is_single

Refuses = Callable[[str, Sequence[object], object, object], "str | None"]
"""Why a product is refused, by the dtype, its rows, its columns and the terms of a sum."""

RESULTS = ("float32", "float16", "bfloat16", "int32")
#: The most terms of a sum in int32 of codes, minus a zero point times a sum of weights.
LONGEST = 1 << 16


def eight_bit_products(mod: Any, refuses: Refuses) -> Any:
    """The module with such products; the input is not changed.

    Warns of products of two dequantised operands that stay as they are written.
    """
    writer = _Products(mod, refuses)
    out = mutated(mod, writer)
    for why, count in writer.refused.items():
        subject = "1 quantised product is" if count == 1 else f"{count} quantised products are"
        warn(f"{subject} not computed in 8 bits: {why}")
    return relax.transform.DeadCodeElimination()(out) if writer.count else mod


@relax.expr_functor.mutator
class _Products(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces products of dequantised operands, unless they are refused."""

    def __init__(self, mod: Any, refuses: Refuses) -> None:
        super().__init__(mod)
        self.refuses, self.count, self.refused = refuses, 0, dict[str, int]()

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not named(call, "relax.matmul") and not named(call, TRANSPOSED_MATMUL):
            return call
        if _is_written(call):
            return call
        operands = [codes(a, self.lookup_binding) for a in call.args]
        first, second = operands
        if isinstance(first, str) or isinstance(second, str):
            return call
        new = self.product(call, first, second)
        if isinstance(new, str):
            self.refused[new] = self.refused.get(new, 0) + 1
            return call
        self.count += 1
        return new

    def product(self, call: Any, first: Codes, second: Codes) -> Any:
        """The product of the codes, scaled; or why it is refused."""
        turned = call.attrs["transposed"] if named(call, TRANSPOSED_MATMUL) else (False, False)
        dtype, result = first.dtype, str(call.ty.dtype)
        terms = extent_of(call.args[0].ty.shape.values[-1])
        *rows, columns = map(extent_of, call.ty.shape.values)
        factors = _factors(first, second, bool(turned[1]))
        reasons = (
            _operands(first, second, [bool(t) for t in turned]), _result(result, dtype),
            factors if isinstance(factors, str) else None,
            self.refuses(dtype, rows, columns, terms), _terms(dtype, terms),
        )  # fmt: skip
        if (reason := next(filter(None, reasons), None)) is not None:
            return reason
        weights = self.rows(second, bool(turned[1]))
        zero, data = self.signed(first)
        total = "float32" if dtype == FLOAT8 else "int32"
        out = self.emit(transposed_matmul(data, weights, out_dtype=total))
        if zero is not None:
            sums = array_of(weights).numpy().astype("int32").sum(-1)
            term = self.emit(relax.op.multiply(zero, relax.const(sums, "int32")))
            out = self.emit(relax.op.subtract(out, term))
        return self.scaled(out, factors, result)

    def scaled(self, out: Any, factors: Any, result: str) -> Any:
        """A product with its scales, in the dtype of the result."""
        if str(out.ty.dtype) == "int32" and result != "int32":
            out = self.emit(relax.op.astype(out, "float32"))
        for factor in factors:
            out = self.emit(relax.op.multiply(out, factor))
        if str(out.ty.dtype) != result:
            return relax.op.astype(out, result)
        return self.lookup_binding(out)  # the caller binds it; what was bound here is dead

    def rows(self, second: Codes, turned: bool) -> Any:
        """The second operand as int8 or float8 in rows of what is summed."""
        _, data = self.signed(second)
        if turned == second.swapped:
            array = np.ascontiguousarray(array_of(data).numpy().swapaxes(-1, -2))
            return relax.const(array, str(data.ty.dtype))
        return data

    def signed(self, operand: Codes) -> tuple[Any, Any]:
        """The zero point, None for 0, and the codes, both for int8."""
        data, zero = operand.data, operand.zero
        if str(data.ty.dtype) != "uint8":
            return self.number(zero, 0), data
        middle = relax.const(np.int32(128), "int32")
        if isinstance(data, GenericConst):
            array = (array_of(data).numpy().astype("int32") - 128).astype("int8")
            return self.number(zero, 128), relax.const(array, "int8")
        wide = self.emit(relax.op.astype(data, "int32"))
        moved = self.emit(relax.op.subtract(wide, middle))
        return self.number(zero, 128), self.emit(relax.op.astype(moved, "int8"))

    def number(self, zero: Any, less: int) -> Any:
        """A zero point minus a number as an int32; None for 0."""
        if zero is None or isinstance(zero, GenericConst):
            value = (0 if zero is None else int(array_of(zero).numpy())) - less
            return relax.const(np.int32(value), "int32") if value else None
        zero = self.emit(relax.op.reshape(self.emit(relax.op.astype(zero, "int32")), ()))
        moved = relax.op.subtract(zero, relax.const(np.int32(less), "int32"))
        return self.emit(moved) if less else zero

    def emit(self, expr: Any) -> Any:
        return self.builder_.emit(expr)


def _is_written(call: Any) -> bool:
    """Whether a product is one of 8-bit numbers in rows, as the program has it."""
    rows = named(call, TRANSPOSED_MATMUL) and [bool(t) for t in call.attrs["transposed"]]
    return rows == [False, True] and all(str(a.ty.dtype) in ("int8", FLOAT8) for a in call.args)


def _operands(first: Codes, second: Codes, turned: Sequence[bool]) -> str | None:
    """Why two operands cannot be multiplied; ``turned``: which one the product reads swapped."""
    if first.dtype != second.dtype:
        return f"{first.dtype} and {second.dtype} are multiplied, expected one dtype"
    if isinstance(first.data, GenericConst):
        return "the first operand is a constant"
    if turned[0] != first.swapped:
        return "the first operand is transposed"
    constant = isinstance(second.data, GenericConst)
    if turned[1] == second.swapped and not constant:
        return "the second operand is not a constant, and not in rows of what is summed"
    if second.has_zero:
        return "the second operand has a zero point"
    if first.has_zero and not constant:
        return "the first operand has a zero point, and the second one is not a constant"
    return None


def _result(result: str, dtype: str) -> str | None:
    if result not in RESULTS or (result == "int32" and dtype == FLOAT8):
        return f"the result of {dtype} is {result}"
    return None


def _terms(dtype: str, terms: object) -> str | None:
    if dtype == FLOAT8 or (isinstance(terms, int) and terms < LONGEST):
        return None
    return f"{terms} products are summed, expected fewer than {LONGEST} in int32"


def _factors(first: Codes, second: Codes, turned: bool) -> list[Any] | str:
    """The factors of the result: one constant, then tensors; or why a scale is refused."""
    constant, tensors = np.ones((), "float64"), []
    for scale in first.scales:
        if not is_single(scale) and extent_of(scale.ty.shape.values[-1]) != 1:
            return "a scale of the first operand varies along the axis that is summed"
        if isinstance(scale, GenericConst):
            constant = constant * array_of(scale).numpy().astype("float64")
        else:
            tensors.append(scale)
    for scale in second.scales:
        if not isinstance(scale, GenericConst):
            if not is_single(scale):
                return "the second operand has several scales that are not constants"
            tensors.append(scale)
            continue
        array = array_of(scale).numpy().astype("float64")
        columns = _by_column(array, turned)
        if columns is None:
            return "a scale of the second operand varies along the axis that is summed"
        constant = constant * columns
    own = [relax.const(constant.astype("float32"), "float32")] if (constant != 1).any() else []
    return [*own, *tensors]


def _by_column(array: Any, turned: bool) -> Any:
    """A scale of the second operand for columns of the result; None if it varies along rows."""
    if array.size == 1:
        return array.reshape(())
    along = array.ndim - (1 if turned else 2)  # the axis that is summed
    if along >= 0 and array.shape[along] != 1:
        return None
    if any(e != 1 for e in array.shape[:-2]) or (turned and array.ndim < 2):
        return None
    return array.reshape(-1)
