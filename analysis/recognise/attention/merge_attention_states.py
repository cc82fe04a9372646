"""Results of attention over two sets of keys, merged to that over both.

    v[t, h, d] = values * a / (a + b) + others * b / (a + b)    with a = 2 ** (scores - m), ..
    s[t, h] = log2(a + b) + m

A kernel that has a fixed number of threads merges as many heads and features; those are then
assumed to be all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...certify.assumed_sizes import lone_size
from ...composites.attention import MERGE
from ...lifting.effects.tensor_expression import OutputDefinition, TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, recogniser
from ...results.op_info import Refusal
from ...terms.condition_terms import parts
from ...terms.term import CallTerm, Int, Load, TensorVar, Var, as_int
from ...terms.traversal import subterms
from .._forms.sums_of_products import bare

MATCHES = [
    Matches(MERGE, ("float16[n, 8, 32]", "float32[n, 8]") * 2),
    Matches(MERGE, ("float32[n, h, d]", "float32[n, h]") * 2),
]


@recogniser("merge_attention_states", precedence=432, ops=(MERGE,))
def merge_attention_states(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match two results, of which the second reads two tensors and the first two more."""
    if [len(c.axes) for c in expression.outputs] not in ([3, 2], [2, 3]):
        return Refusal("the results are not attention and the logarithms of its sums")
    wide, narrow = sorted(expression.outputs, key=lambda c: -len(c.axes))
    scores = _read(narrow)
    values = [t for t in _read(wide) if t not in scores]
    if len(scores) != 2 or len(values) != 2 or any(len(t.shape) != 2 for t in scores):
        return Refusal("the compute does not read two results of attention")
    sizes = _whole(wide)
    pairs = [(a, b) for a in (values, values[::-1]) for b in (scores, scores[::-1])]
    return [
        Proposal(MERGE, tuple(t.position for v in zip(a, b, strict=True) for t in v), sizes=sizes)
        for a, b in pairs
    ]


def _read(definition: OutputDefinition) -> list[TensorVar]:
    """The tensors that a result is computed from, by position."""
    loads = {s.tensor for s in subterms(definition.body) if isinstance(s, Load)}
    return sorted(loads, key=lambda tensor: tensor.position)


def _whole(definition: OutputDefinition) -> dict[Var, Int]:
    """The sizes that make the part of a result that is computed the whole result."""
    body, sizes = bare(definition.body), dict[Var, Int]()
    if not isinstance(body, CallTerm) or body.op != "ite":
        return sizes
    for condition in parts(body.args[0]):
        if not isinstance(condition, CallTerm) or condition.op != "ge0":
            continue
        for axis, extent in zip(definition.axes, definition.out.shape, strict=True):
            count, size = as_int(condition.args[0]) + axis + 1, lone_size(extent)
            if count.const is not None and size is not None:
                sizes[size] = count
    return sizes
