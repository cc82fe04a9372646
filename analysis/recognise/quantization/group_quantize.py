"""Symmetric quantisation by group into packed words, with the scales.

m = 2**(bits - 1) - 1
scale[g] = max |data[i]| / m                                   over the group's i
words[w] = sum min(max(round(data[i] / scale + m), 0), 2 * m) << bits * k    over its n values
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm.runtime import DataType

from ...composites.grouped import QUANTIZE
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Reduce, TensorVar, Term
from ...terms.traversal import subterms


def _case(data: str, bits: int, group: int, axis: int, dtype: str = "uint32") -> Matches:
    attrs = {"bits": bits, "group_size": group, "axis": axis, "dtype": dtype}
    return Matches(QUANTIZE, (data,), attrs)


MATCHES = [
    _case("float16[n, 64]", 4, 32, 1),
    _case("float16[64, n]", 4, 32, 0),
    _case("float16[n, 64]", 3, 40, 1),
    _case("float32[2, 5, 48]", 8, 16, 2),
    _case("float32[5, 48]", 2, 16, 1, "uint8"),
    _case("float32[3, 20]", 8, 10, 1, "uint8"),
]

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 16), "float32"), w: T.Buffer((4, 4), "uint8"),
         s: T.Buffer((4, 2), "float32")):
    largest = T.sblock_alloc_buffer((4, 2), "float32")
    for i, j, k in T.grid(4, 2, 8):
        with T.sblock("a"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                largest[vi, vj] = T.min_value("float32")
            largest[vi, vj] = T.max(largest[vi, vj], {value})
    for i, j in T.grid(4, 2):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            s[vi, vj] = largest[vi, vj] / T.float32({divisor})
    for i, j, k in T.grid(4, 4, 4):
        with T.sblock("c"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                w[vi, vj] = T.uint8(0)
            w[vi, vj] = w[vi, vj] + T.shift_left(T.Cast("uint8", T.min(T.max({round}(
                x[vi, vj * 4 + vk] / s[vi, {group}] + T.float32(1)), T.float32(0)),
                T.float32({top}))), T.Cast("uint8", {shift}))
"""
_PARTS = {
    "value": "T.fabs(x[vi, vj * 8 + vk])",
    "divisor": "1",
    "round": "T.round",
    "group": "vj // 2",
    "top": "2",
    "shift": "vk * 2",
}


def _changed(why: str, **parts: str) -> Refuses:
    return Refuses(why, _HEAD.format(**(_PARTS | parts)))


REFUSES = [
    _changed("the largest value, not the largest magnitude", value="x[vi, vj * 8 + vk]"),
    _changed("the scale has another divisor", divisor="2"),
    _changed("ties are rounded to even", round="T.nearbyint"),
    _changed("the scale of another group", group="1 - vj // 2"),
    _changed("values may be 2 * m + 1", top="3"),
    _changed("the first value is in the highest bits", shift="6 - vk * 2"),
    _changed("values are three bits apart", shift="vk * 3"),
]


@recogniser("group_quantize", precedence=157, ops=(QUANTIZE,))
def group_quantize(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Guess from shapes and the lengths of the two reductions."""
    data = [p for p in expression.params[: -len(expression.outputs)] if isinstance(p, TensorVar)]
    if len(expression.outputs) != 2 or len(data) != 1:
        return Refusal("a quantisation by group has one operand and two results")
    words, scale = (d.out for d in expression.outputs)
    if "uint" not in words.dtype or scale.dtype != data[0].dtype:
        return Refusal("the results are not words and scales")
    rank = len(data[0].shape)
    if not len(words.shape) == len(scale.shape) == rank:
        return Refusal("words and scales have another rank than the data")
    width = int(DataType(words.dtype).bits)
    per_word = _length(expression.outputs[0].body, "add")
    group = _length(expression.outputs[1].body, "max")
    proposals = []
    for axis in range(rank):
        count = scale.shape[axis].const
        if count is None or words.shape[axis].const != count * group // per_word:
            continue
        proposals += [
            Proposal(
                QUANTIZE,
                (data[0].position,),
                {"bits": bits, "group_size": group, "axis": axis, "dtype": words.dtype},
            )
            for bits in range(width, 1, -1)
            if width // bits == per_word
        ]
    return proposals or Refusal("words and scales do not have the sizes of groups")


def _length(body: Term, op: str) -> int:
    """The number of values that the outermost reduction combines; 1 if there is none."""
    reduction = next((t for t in subterms(body) if isinstance(t, Reduce) and t.op == op), None)
    length = 1
    for axis in reduction.axes if reduction else ():
        length *= (axis.extent.const if axis.extent is not None else None) or 0
    return length
