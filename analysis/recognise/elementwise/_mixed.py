"""Elementwise formulas whose operands have several dtypes, or are sizes.

    eq(x[y], cast:float32(t[y]))    as    eq(x[y], t'[y])    with t' like t, but of float32

An operand that is converted, or a size, is replaced by a load of the dtype in which the operation
is carried out. The formula is then one over operands of one dtype.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...terms.order import is_closed
from ...terms.term import CallTerm, Int, Load, TensorVar, Term, Var, as_int, load
from ...terms.traversal import replace
from .._forms.sums_of_products import bare
from ._template import INTS


class SizeOperand(TensorVar):
    """A size, or a sum of sizes, in the place of a tensor of rank 0."""

    __slots__ = ("value",)

    def __init__(self, value: Int, dtype: str) -> None:
        super().__init__("size", (), dtype)
        self.value = value


def unified(body: Term) -> Iterator[Term]:
    """Yield the formula with operands of one dtype, for each dtype in which it may be computed."""
    loads, sizes, casts = _operands(body)
    for dtype in dict.fromkeys(c.dtype for c in casts):
        mapping: dict[Term, Term] = {
            c: _converted(bare(c.args[0]), dtype) for c in casts if c.dtype == dtype
        }
        yield replace(body, mapping)
    types = {x.tensor.dtype for x in loads}
    if not casts and types and types <= INTS and (len(types) > 1 or sizes):
        operands = [x for x in loads if x.tensor.dtype != "int64"]
        yield replace(body, {x: _converted(x, "int64") for x in (*operands, *sizes)})


def _operands(body: Term) -> tuple[list[Load], list[Var], list[CallTerm]]:
    """Loads and sizes that are not converted, and conversions of loads and sizes."""
    loads, sizes, casts = dict[Load, None](), dict[Var, None](), dict[CallTerm, None]()
    seen, stack = {body}, [body]
    while stack:
        term = stack.pop()
        if isinstance(term, CallTerm) and term.op == "cast" and _is_operand(term.args[0]):
            casts[term] = None
            continue
        if isinstance(term, Load):
            loads[term] = None
            continue
        if isinstance(term, Var) and is_closed(term):
            sizes[term] = None
        inner = term.children if isinstance(term, (Int, CallTerm)) else ()
        stack += [c for c in inner if c not in seen]
        seen.update(inner)
    return list(loads), list(sizes), list(casts)


def _is_operand(term: Term) -> bool:
    return isinstance(bare(term), Load) or (isinstance(term, Int) and is_closed(term))


def _converted(term: Term, dtype: str) -> Term:
    if isinstance(term, Load):
        tensor = term.tensor
        return load(TensorVar(tensor.name, tensor.shape, dtype, tensor.position), term.indices)
    return load(SizeOperand(as_int(term), dtype), ())
