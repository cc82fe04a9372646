"""Reductions over whole dimensions of one tensor.

out[y] = ⊕_{r} x[y, r]        ⊕: sum, prod, max, min; on bool a sum is "or", a product "and"

A sum that keeps some of its dimensions as 1 and drops others is collapse_sum_to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import among, axes_with
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import ONE, Const, Int, Load, Reduce, TensorVar, Term
from ...terms.term.literals import is_const
from .._forms.reduced_dimensions import args, swept, units, with_units
from .._forms.sums_of_products import bare

#: Combiner → Relax op.
NAMES = {"add": "relax.sum", "mul": "relax.prod", "max": "relax.max", "min": "relax.min"}
BOOL = {"or": "relax.sum", "and": "relax.prod"}
COLLAPSE = "relax.collapse_sum_to"

MATCHES = [
    *(
        Matches(op, (f"{dtype}[2, n, 5]",), {"axis": [1], "keepdims": False})
        for op in NAMES.values()
        for dtype in ("float32", "float16", "int32", "int64")
    ),
    Matches("relax.sum", ("float32[2, 3, n, 5]",), {"axis": [0, 2], "keepdims": True}),
    Matches("relax.sum", ("float32[2, 3]",), {}, {"axis": None, "keepdims": False}),
    Matches(
        "relax.max",
        ("float32[n, m]",),
        {"axis": [0, 1], "keepdims": True},
        {"axis": None, "keepdims": True},
    ),
    Matches("relax.max", ("uint8[2, 3, 4]",), {"axis": -1}, {"axis": [2], "keepdims": False}),
    Matches("relax.sum", ("int8[1, 4, 3]",), {"axis": [0, 2]}, {"axis": [0, 2], "keepdims": False}),
    Matches("relax.min", ("float32[4, 1]",), {"axis": [1]}, {"axis": [1], "keepdims": False}),
    Matches("relax.sum", ("float32[4, 1]",), {"axis": [1]}, {"axis": [1], "keepdims": False}),
    Matches("relax.prod", ("float32[3, 1, n]",), {"axis": [1], "keepdims": True}),
    Matches("relax.sum", ("bool[2, n, 4]",), {"axis": [1], "keepdims": False}),
    Matches("relax.prod", ("bool[2, 4]",), {"axis": [1], "keepdims": True}),
    Matches(COLLAPSE, ("float32[2, 3, 4]",), {"shape": (3, 1)}),
    Matches(
        "relax.collapse_sum_like",
        ("float32[2, n, 4]", "float32[n, 1]"),
        {},
        {"shape": ("n", 1)},
        COLLAPSE,
    ),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 6), "float32"), out: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, {extent}):
        with T.sblock("c"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                out[vi] = T.float32({init})
            out[vi] = {value}
"""

REFUSES = [
    Refuses(
        "a sum over one element fewer", _HEAD.format(extent=5, init=0, value="out[vi] + x[vi, vk]")
    ),
    Refuses("a sum that starts at 1", _HEAD.format(extent=6, init=1, value="out[vi] + x[vi, vk]")),
    Refuses(
        "a maximum that starts at 0",
        _HEAD.format(extent=6, init=0, value="T.max(out[vi], x[vi, vk])"),
    ),
    Refuses(
        "a sum of squares", _HEAD.format(extent=6, init=0, value="out[vi] + x[vi, vk] * x[vi, vk]")
    ),
    Refuses("a sum over a diagonal", _HEAD.format(extent=4, init=0, value="out[vi] + x[vk, vk]")),
    Refuses(
        "an alternating sum, which is not a reduction",
        _HEAD.format(extent=6, init=0, value="x[vi, vk] - out[vi]"),
    ),
]


@recogniser("reduce", precedence=400, ops=(*NAMES.values(), COLLAPSE))
def reduce(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match a reduction of one load, or over an axis of extent 1 a literal combined with a load."""
    if len(expression.outputs) != 1:
        return Refusal("a reduction has one output")
    out, body = expression.outputs[0].out, bare(expression.outputs[0].body)
    if not isinstance(body, Reduce):
        return _of_one_element(out, body)
    data, name = bare(body.body), NAMES.get(body.op) or BOOL[body.op]
    if not isinstance(data, Load) or (
        body.op in ("add", "mul") and not is_const(body.init, body.op == "mul")
    ):
        return Refusal("the reduction is not over one load", repr(body))
    dims = swept(data, body.axes)
    if dims is None:
        return Refusal("the reduction does not cover whole dimensions", repr(data))
    candidates = list(proposals(name, data.tensor, dims, out))
    if name == NAMES["add"]:
        shape = tuple(e if e.const is None else e.const for e in out.shape)
        candidates.append(Proposal(COLLAPSE, (data.tensor.position,), {"shape": shape}))
    return candidates


def _of_one_element(out: TensorVar, body: Term) -> Sequence[Proposal] | Refusal:
    """Match ``max(lowest, x[..])``: the maximum over a dimension of extent 1."""
    for op, name in NAMES.items():
        pair = args(body, op) or ()
        if len(pair) != 2:  # extremes of integers are flattened: max(max(a, b), 3) has three
            continue
        start, data = sorted(map(bare, pair), key=lambda term: isinstance(term, Load))
        literal = isinstance(start, Const) or (isinstance(start, Int) and start.const is not None)
        if not (literal and isinstance(data, Load) and units(data.tensor)):
            continue
        if len(out.shape) < len(data.tensor.shape):
            return list(proposals(name, data.tensor, (), out))
        return list(proposals(name, data.tensor, units(data.tensor)[:1], out))
    return Refusal("the compute is not a reduction")


def proposals(
    name: str,
    tensor: TensorVar,
    dims: Sequence[int],
    out: TensorVar,
    attrs: dict[str, Any] | None = None,
) -> Iterator[Proposal]:
    """The operator over these dimensions, and over those of extent 1 that the result lacks."""
    rank = len(tensor.shape)
    keepdims = len(out.shape) == rank
    dims = dims or units(tensor)[:keepdims]
    count = len(dims) if keepdims else rank - len(out.shape)
    choices = [
        choice
        for choice in with_units(dims, tensor, count)
        if shape_without(tensor, choice, keepdims) == out.shape
    ]
    spare = [d for d in units(tensor) if d not in dims]
    if keepdims:
        notes = axes_with(dims, spare)
    else:
        notes = among("axis", list(map(list, choices)), "dimensions of extent 1 are alike")
    for chosen in choices[:1]:
        axis = None if len(chosen) == rank else list(chosen)
        values = {"axis": axis, "keepdims": keepdims, **(attrs or {})}
        yield Proposal(name, (tensor.position,), values, undetermined=notes)


def shape_without(tensor: TensorVar, dims: Sequence[int], keepdims: bool) -> tuple[object, ...]:
    """Return the shape of a reduction over some dimensions."""
    kept = [
        ONE if d in dims else extent
        for d, extent in enumerate(tensor.shape)
        if keepdims or d not in dims
    ]
    return tuple(kept)
