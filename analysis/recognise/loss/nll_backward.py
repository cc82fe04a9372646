"""The gradient of nll_loss with respect to its predictions.

    g[n, c, y] = -w(t[n, y]) * grad if t[n, y] = c else 0
    w(k)       = weights[k] if k != ignore_index else 0
    grad       = output_grad[n, y]  |  output_grad  |  output_grad / Σ w(t)       none, sum, mean

The predictions are not read, only their shape is used; missing weights are 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined, among
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import CallTerm, Load, TensorVar, Term, as_int
from ...terms.term.literals import is_const
from ...terms.traversal import subterms, tensors
from .._forms.reduced_dimensions import DIVISIONS, args
from .._forms.sums_of_products import bare

OP = "relax.grad.nll_loss_backward"

MATCHES = [
    *(
        Matches(OP, operands, {"reduction": reduction, "ignore_index": ignored})
        for reduction, ignored in (("sum", 3), ("mean", -100), ("mean", 0))
        for operands in (
            ("float32[]", "float32[2, 4]", "int64[2]", "float32[4]"),
            ("float32[]", "float32[n, 4, 5]", "int64[n, 5]", "float32[4]"),
            ("float16[]", "float16[2, 4, 5]", "int64[2, 5]"),
        )
    ),
    Matches(OP, ("float32[3]", "float32[3, 4]", "int64[3]"), {"reduction": "none"}),
    Matches(
        OP,
        ("float32[n]", "float32[n, 4]", "int64[n]", "float32[4]"),
        {"reduction": "none", "ignore_index": 2},
    ),
    Matches(OP, ("float32[]", "float32[4]", "int64[]", "float32[4]"), {"reduction": "mean"}),
]

_BODY = """
@T.prim_func(s_tir=True)
def main(g: T.Buffer((3,), "float32"), x: T.Buffer((3, 4), "float32"), t: T.Buffer((3,), "int64"),
         w: T.Buffer((4,), "float32"), out: T.Buffer((3, 4), "float32")):
    for i, k in T.grid(3, 4):
        with T.sblock("gradient"):
            vi, vk = T.axis.remap("SS", [i, k])
            out[vi, vk] = T.Select(t[vi] == T.Cast("int64", vk), {value}, {rest})
"""

REFUSES = [
    Refuses("the sign is not negated", _BODY.format(value="w[t[vi]] * g[vi]", rest="T.float32(0)")),
    Refuses(
        "1 elsewhere", _BODY.format(value="T.float32(-1) * w[t[vi]] * g[vi]", rest="T.float32(1)")
    ),
    Refuses(
        "the weight of another class",
        _BODY.format(value="T.float32(-1) * w[vi] * g[vi]", rest="T.float32(0)"),
    ),
]


@recogniser("nll_loss_backward", precedence=497, ops=(OP,))
def nll_loss_backward(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a selection of the target's class, over a product with a weight indexed by data."""
    definition = expression.outputs[0]
    choice = bare(definition.body)
    if len(expression.outputs) != 1 or not (isinstance(choice, CallTerm) and choice.op == "ite"):
        return Refusal("the compute is not a selection on targets")
    condition, value, otherwise = choice.args
    targets = {s.tensor for s in subterms(condition) if isinstance(s, Load)}
    if len(targets) != 1 or not is_const(otherwise, 0):
        return Refusal("the gradient is not 0 where the target is another class")
    (target,) = targets
    loads = [s for s in subterms(value) if isinstance(s, Load) and s.tensor is not target]
    weights = {s.tensor for s in loads if any(tensors(i) for i in s.indices)}
    grads = {s.tensor for s in loads} - weights
    used = {target, *weights, *grads}
    unused = [t for t in expression.inputs if isinstance(t, TensorVar) and t not in used]
    out = definition.out
    predictions = next((t for t in unused if (t.shape, t.dtype) == (out.shape, out.dtype)), None)
    if len(grads) != 1 or len(weights) > 1 or predictions is None:
        return Refusal("the gradient does not have one output with the predictions' shape")
    (grad,) = grads
    divided = any(args(s, *DIVISIONS) is not None for s in subterms(value))
    reduction = "mean" if divided else "sum" if not grad.shape else "none"
    ignored = next(_ignored(value, target), None)
    notes = []
    if ignored is None:
        notes.append(Undetermined("ignore_index", "a negative index ignores nothing", high=-1))
    if not target.shape and not divided:
        notes += among("reduction", ["sum", "none"], "there is one target")
    operands = tuple(param.position for param in (grad, predictions, target, *weights))
    attrs = {"reduction": reduction, "ignore_index": -100 if ignored is None else ignored}
    return [Proposal(OP, operands, attrs, undetermined=tuple(notes))]


def _ignored(value: Term, tensor: TensorVar) -> Iterator[int]:
    """The classes k of selections on ``t == k``; the first and last class use ``<=`` and ``>=``."""
    for term in subterms(value):
        if not (isinstance(term, CallTerm) and term.op in ("eq0", "ge0")):
            continue
        poly = as_int(term.args[0])
        loads = [m[0] for m, _ in poly.terms if len(m) == 1 and isinstance(m[0], Load)]
        if len(loads) == 1 and loads[0].tensor is tensor:
            coef = dict(poly.terms)[(loads[0],)]
            shift = (poly - as_int(loads[0]) * coef).const
            if shift is not None:
                yield -shift * coef
