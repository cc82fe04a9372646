"""Losses of classifiers.

    cross_entropy_with_logits = -Σ_{n, c} predictions[n, c] * labels[n, c] / N
    l[n, y]  = -predictions[n, t[n, y], y] * weights[t[n, y]]  if t[n, y] != ignore_index else 0
    nll_loss = l  |  Σ l  |  Σ l / Σ (weights[t] if t != ignore_index else 0)     none, sum, mean

``t`` are the targets; missing weights are 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, Term, as_int
from ...terms.term.literals import is_const
from ...terms.traversal import subterms, tensors
from .._forms.reduced_dimensions import DIVISIONS, args, load
from .._forms.sums_of_products import bare, combined

CROSS, NLL = "relax.nn.cross_entropy_with_logits", "relax.nn.nll_loss"

MATCHES = [
    Matches(CROSS, ("float32[n, 4]",) * 2),
    Matches(CROSS, ("float32[3, 4]",) * 2),
    Matches(CROSS, ("float32[4]",) * 2),
    *(
        Matches(NLL, operands, {"reduction": reduction, "ignore_index": ignored})
        for reduction, ignored in (("none", -100), ("sum", 3), ("mean", -100))
        for operands in (
            ("float32[2, 4]", "int64[2]", "float32[4]"),
            ("float32[n, 4, 5]", "int64[n, 5]", "float32[4]"),
            ("float32[2, 4, 5]", "int64[2, 5]"),
        )
    ),
    Matches(NLL, ("float32[4]", "int64[]", "float32[4]"), {"reduction": "mean", "ignore_index": 2}),
]

_CROSS = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 4), "float32"), y: T.Buffer((3, 4), "float32"),
         out: T.Buffer((), "float32")):
    s = T.alloc_buffer(())
    for i, k in T.grid(3, 4):
        with T.sblock("sum"):
            vi, vk = T.axis.remap("RR", [i, k])
            with T.init():
                s[()] = T.float32(0)
            s[()] = s[()] + x[vi, vk] * y[vi, vk]
    out[()] = {out}
"""
_NLL = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 4), "float32"), t: T.Buffer((3,), "int64"), w: T.Buffer((4,), "float32"),
         out: T.Buffer((3,), "float32")):
    for i in range(3):
        with T.sblock("loss"):
            vi = T.axis.spatial(3, i)
            out[vi] = T.Select(t[vi] != T.int64(-100), {loss}, {ignored})
"""

REFUSES = [
    Refuses("divided by the number of classes",
            _CROSS.format(out="s[()] * T.float32(-1) / T.float32(4)")),
    Refuses("the sign is not negated", _CROSS.format(out="s[()] / T.float32(3)")),
    Refuses("the loss is not negative",
            _NLL.format(loss="x[vi, t[vi]] * w[t[vi]]", ignored="T.float32(0)")),
    Refuses("ignored targets have a loss of 1",
            _NLL.format(loss="(T.float32(0) - x[vi, t[vi]]) * w[t[vi]]", ignored="T.float32(1)")),
]  # fmt: skip


SYMMETRIC = among("operands", [(0, 1), (1, 0)], "they are multiplied")


@recogniser("cross_entropy", precedence=490, ops=(CROSS,))
def cross_entropy(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a negated sum of products of two tensors, which are symmetric."""
    body = expression.outputs[0].body
    if len(expression.outputs) != 1 or expression.outputs[0].axes:
        return Refusal("a loss has one element")
    divided = args(body, *DIVISIONS)
    factors = args(divided[0] if divided else body, "mul") or ()
    total = next((r for r in (combined(x, "add") for x in factors) if r is not None), None)
    if total is None or not any(is_const(bare(x), -1) for x in factors):
        return Refusal("the compute is not a negated sum")
    operands = [load(x) for x in args(total.body, "mul") or ()]
    if len(operands) != 2 or None in operands:
        return Refusal("the sum is not over products of two tensors")
    positions = sorted(x.tensor.position for x in operands if x is not None)
    return [Proposal(CROSS, tuple(positions), undetermined=SYMMETRIC)]


@recogniser("nll_loss", precedence=495, ops=(NLL,))
def nll_loss(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match predictions at an index from data, a selection on that index, and its sum."""
    body = expression.outputs[0].body
    divided = args(body, *DIVISIONS) if len(expression.outputs) == 1 else None
    top = divided[0] if divided else body
    total = combined(top, "add")
    reduction = "mean" if divided else "sum" if total is not None else "none"
    choice = bare(total.body if total is not None else top)
    if not (isinstance(choice, CallTerm) and choice.op == "ite"):
        return Refusal("the compute is not a selection on targets")
    reads = list(_by_data(choice))
    predictions = [x for x in reads if _negated(choice, x)]
    weights = [x for x in reads if x not in predictions]
    if len(predictions) != 1 or len(weights) > 1:
        return Refusal("the selection does not use one prediction and one weight")
    target = next(_targets(predictions[0]), None)
    ignored = None if target is None else _ignored(choice.args[0], target)
    if target is None or ignored is None:
        return Refusal("no target is ignored")
    positions = [x.tensor.position for x in (predictions[0], target, *weights)]
    return [Proposal(NLL, tuple(positions), {"reduction": reduction, "ignore_index": ignored})]


def _by_data(body: Term) -> Iterator[Load]:
    """Loads at indices from data."""
    for term in subterms(body):
        if isinstance(term, Load) and any(tensors(i) for i in term.indices):
            yield term


def _targets(prediction: Load) -> Iterator[Load]:
    for index in prediction.indices:
        if isinstance(bare(index), Load):
            yield bare(index)  # type: ignore[misc]


def _negated(term: Term, prediction: Load) -> bool:
    """Whether ``0 - prediction`` occurs."""
    differences = (args(s, "sub") for s in subterms(term))
    return any(
        d is not None and is_const(d[0], 0) and load(d[1]) is prediction for d in differences
    )


def _ignored(condition: Term, target: Load) -> int | None:
    """The class k of a condition ``t == k``."""
    if not (isinstance(condition, CallTerm) and condition.op == "eq0"):
        return None
    shift = (as_int(condition.args[0]) - as_int(target)).const
    return None if shift is None else -shift
