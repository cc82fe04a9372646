"""Drop the guard of a softmax against rows that are masked as a whole, where no row is.

Before: m = R.min(R.equal(x, R.const(-inf)), axis=-1, keepdims=True)       as torch exports it
        y = R.where(m, R.const(0.0), R.nn.softmax(x, axis=-1))
After:  y = R.nn.softmax(x, axis=-1)

The guard reads the scores three times, and runtimes do not know it as a part of attention. It
stays unless ``x`` is a product of matrices, scaled by constants, plus constants that have in each
row an element other than -inf. A product is taken to be above -inf, that is, not to overflow; so
float16 keeps its guards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from .constants.constant_values import Array, ConstantValues
from .mutation.bindings import final_value
from .mutation.mutate import mutated, named

#: Operators that only move elements.
_MOVES = frozenset(f"relax.{n}" for n in ("reshape", "permute_dims", "broadcast_to", "expand_dims",
                                          "squeeze"))  # fmt: skip
_SCALES = ("relax.add", "relax.multiply", "relax.divide")
_DTYPES = ("float32", "float64")


def drop_softmax_guards(mod: Any) -> Any:
    """The module without the guards that do nothing; the input is not changed."""
    return relax.transform.DeadCodeElimination()(mutated(mod, _Unguarded(mod)))


@relax.expr_functor.mutator
class _Unguarded(relax.PyExprMutator):  # type: ignore[misc]
    """Replaces guarded softmaxes where no row is masked as a whole."""

    def __init__(self, mod: Any) -> None:
        super().__init__(mod)
        self.values = ConstantValues(self.lookup_binding)

    def visit_call_(self, call: Any) -> Any:
        call = super().visit_call_(call)
        if not named(call, "relax.where"):
            return call
        softmax = final_value(self, call.args[2])
        if not named(softmax, "relax.nn.softmax") or not self.zero(call.args[1]):
            return call
        scores, axis = softmax.args[0], int(softmax.attrs.axis) % softmax.ty.ndim
        same = tvm_ffi.structural_equal(call.ty, softmax.ty)
        if not same or str(call.ty.dtype) not in _DTYPES:
            return call
        masked = self.masked_rows(call.args[0])
        if masked is None or masked[1] != axis or not masked[0].same_as(scores):
            return call
        return call.args[2] if self.has_open_rows(scores, axis) else call

    def masked_rows(self, condition: Any) -> tuple[Any, int] | None:
        """The tensor and axis of a condition that all elements of a row are -inf."""
        reduced, negated = self.boolean(condition)
        name = "relax.max" if negated else "relax.min"
        if not named(reduced, name) or not reduced.attrs.keepdims or reduced.attrs.axis is None:
            return None
        axes = [int(a) % reduced.ty.ndim for a in reduced.attrs.axis]
        compared, inner = self.boolean(reduced.args[0])
        if len(axes) != 1 or inner != negated or not named(compared, "relax.equal"):
            return None
        for value, other in (compared.args, list(compared.args)[::-1]):
            if (array := self.constant(other)) is not None and (array == -np.inf).all():
                return value, axes[0]
        return None

    def boolean(self, expr: Any) -> tuple[Any, bool]:
        """What a value of truth is cast and negated from, and whether it is negated."""
        negated, call = False, final_value(self, expr)
        while named(call, "relax.astype") or named(call, "relax.logical_not"):
            negated ^= named(call, "relax.logical_not")
            call = final_value(self, call.args[0])
        return call, negated

    def has_open_rows(self, scores: Any, axis: int) -> bool:
        """Whether each row has an element above -inf: of a product of matrices and constants."""
        terms: list[Array] = []
        if not self.is_product(scores, terms):
            return False
        with np.errstate(invalid="ignore"):
            total = sum(terms, np.zeros(()))
        opened = np.asarray(total != -np.inf)
        own = opened.ndim - (scores.ty.ndim - axis)
        return bool((opened.any(axis=own) if own >= 0 else opened).all())

    def is_product(self, expr: Any, terms: list[Array], outermost: bool = True) -> bool:
        """Whether a tensor is a product of matrices, moved, scaled, and with constants added.

        Constants that are added last go to ``terms``; others must be finite.
        """
        call = final_value(self, expr)
        if named(call, "relax.matmul"):
            return True
        op = str(getattr(getattr(call, "op", None), "name", ""))
        if op in _MOVES:
            return self.is_product(call.args[0], terms, False)
        if op not in _SCALES:
            return False
        value, array = self.with_constant(call)
        if array is None:
            return False
        if op == "relax.add" and outermost:
            terms.append(array)
            return self.is_product(value, terms)
        finite = np.isfinite(array).all() and (op != "relax.divide" or array.all())
        return bool(finite) and self.is_product(value, terms, False)

    def with_constant(self, call: Any) -> tuple[Any, Array | None]:
        """The tensor and the constant of an operator of two; of a quotient, the divisor."""
        first, second = call.args
        if (array := self.constant(second)) is not None or named(call, "relax.divide"):
            return first, array
        return second, self.constant(first)

    def zero(self, expr: Any) -> bool:
        array = self.constant(expr)
        return array is not None and not array.any()

    def constant(self, expr: Any) -> Array | None:
        """The elements of what depends on constants only, or the number that fills a tensor."""
        value = final_value(self, expr)
        return self.values(value.args[1] if named(value, "relax.full_like") else expr)
