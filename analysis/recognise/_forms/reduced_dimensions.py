"""Parts of terms that recognisers of reductions and norms use: the reduced dimensions of a tensor.

A dimension of extent 1 leaves no trace in a term, because its index is the literal 0. Only the
shape of the result may show whether it is reduced.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ...lifting.effects.tensor_expression import TensorExpression
from ...terms.row_major import volume
from ...terms.term import ONE, CallTerm, Const, Int, Load, Reduce, TensorVar, Term, Var
from ...terms.term.literals import is_const
from ...terms.traversal import subterms
from .sums_of_products import Combined, bare, combined, only, uncast

DIVISIONS = ("div", "truncdiv", "floordiv", "floordiv_elem")


def args(term: Term, *ops: str) -> tuple[Term, ...] | None:
    """The operands of a call of one of these operations, ignoring conversions around it."""
    term = uncast(term)
    return term.args if isinstance(term, CallTerm) and term.op in ops else None


def load(term: Term) -> Load | None:
    """The term as a load, ignoring conversions."""
    term = uncast(term)
    return term if isinstance(term, Load) else None


def reduction(term: Term, op: str) -> Reduce | None:
    term = uncast(term)
    return term if isinstance(term, Reduce) and term.op == op else None


def swept(operand: Load, axes: Sequence[Var]) -> tuple[int, ...] | None:
    """The dimensions that the axes cover completely; None if the axes are used otherwise."""
    dims = [d for d, i in enumerate(operand.indices) if only(i) in axes]
    complete = all(only(operand.indices[d]).extent is operand.tensor.shape[d] for d in dims)  # type: ignore[union-attr]
    return tuple(dims) if complete and len(dims) == len(axes) else None


def units(tensor: TensorVar) -> list[int]:
    """The dimensions of extent 1."""
    return [d for d, e in enumerate(tensor.shape) if e is ONE]


def with_units(dims: Sequence[int], tensor: TensorVar, count: int) -> list[tuple[int, ...]]:
    """All choices of ``count`` dimensions: these, and others of extent 1."""
    spare = [d for d in units(tensor) if d not in dims]
    missing = count - len(dims)
    if missing < 0:
        return []
    return [tuple(sorted((*dims, *u))) for u in combinations(spare, missing)]


def iterations(axes: Sequence[Var]) -> Int:
    """The number of iterations of loops over these bounded axes."""
    extents = [a.extent for a in axes if a.extent is not None]
    assert len(extents) == len(axes)
    return volume(extents)


def average(term: Term) -> Combined | None:
    """The sum of ``Σ_{axes} body / count``, where count is that of the axes."""
    parts = args(term, *DIVISIONS)
    total = combined(term if parts is None else parts[0], "add")
    if total is None or not is_const(total.init, 0):
        return None
    if parts is None:
        return None if total.axes else total
    count, divisor = iterations(total.axes), uncast(parts[1])
    if divisor is count or divisor is bare(count):
        return total
    return total if count.const is not None and is_const(divisor, count.const) else None


def deviation(term: Term) -> Load | None:
    """The load of x in ``x[y] - mean(x)``."""
    parts = args(term, "sub")
    operand = None if parts is None else load(parts[0])
    if parts is None or operand is None:
        return None
    if args(parts[1], *DIVISIONS) is None and combined(parts[1], "add") is None:
        return None
    means = [s for s in subterms(parts[1]) if isinstance(s, Load)]
    return operand if all(s.tensor is operand.tensor for s in means) else None


def epsilon(term: Term, *roots: str) -> tuple[float, Term] | None:
    """``root(eps + v)`` as ``(eps, v)``."""
    root = args(term, *roots)
    if root is None:
        return None
    parts = args(root[0], "add") or ()
    for k, part in enumerate(map(bare, parts)):
        if isinstance(part, Const) and len(parts) == 2:
            return float(part.value), parts[1 - k]
    return 0.0, root[0]


def affine_product(expression: TensorExpression) -> tuple[tuple[Term, ...], Load, Load] | None:
    """``a * b * gamma[..] + beta[..]``, the only output, as ``((a, b), gamma, beta)``."""
    shifted = with_load(expression.outputs[0].body, "add") if len(expression.outputs) == 1 else None
    scaled = None if shifted is None else with_load(shifted[0], "mul")
    factors = None if scaled is None else args(scaled[0], "mul")
    if shifted is None or scaled is None or factors is None or len(factors) != 2:
        return None
    return factors, scaled[1], shifted[1]


def with_load(term: Term, op: str) -> tuple[Term, Load] | None:
    """``op(core, w[..])`` in either order, where the core is not a load."""
    parts = args(term, op)
    if parts is None or len(parts) != 2:
        return None
    for core, factor in (parts, parts[::-1]):
        weight = load(factor)
        if weight is not None and load(core) is None:
            return core, weight
    return None
