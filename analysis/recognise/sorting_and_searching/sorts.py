"""Sorts, which TVM lowers to calls of extern functions: ``tvm.contrib.sort.*``.

The certificate compares the calls' operands and arguments; what the functions compute is what TVM
documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...lifting.effects.extern_call import ExternCall, ExternResult
from ...lifting.effects.tensor_expression import TensorExpression
from ...proposal.proposal import Proposal
from ...proposal.undetermined import Undetermined
from ...registry import Matches, Refuses, recogniser
from ...results.op_info import Refusal
from ...terms.term import Load, TensorVar
from .._forms.sums_of_products import bare

_FIRST = {"axis": 0, "descending": False}
MATCHES = [
    Matches("relax.sort", ("float32[3, 5]",), {"axis": 1, "descending": True}),
    Matches("relax.sort", ("int64[3, n, 2]",), _FIRST | {"axis": -2}, _FIRST | {"axis": 1}),
    Matches("relax.sort", ("float32[4]",), _FIRST),
    Matches("relax.argsort", ("float32[3, 5]",), _FIRST | {"dtype": "int64"}),
    Matches("relax.argsort", ("float16[3, n]",), _FIRST | {"descending": True, "dtype": "int32"}),
    *(
        Matches(
            "relax.topk", ("float32[3, 8]",),
            {"k": 3, "axis": 1, "ret_type": kind, "largest": kind == "both", "dtype": "int64"},
            {"k": 3, "axis": 1, "ret_type": kind, "largest": kind == "both"},
        )
        for kind in ("both", "values", "indices")
    ),
    Matches("relax.topk", ("float32[n, m]",), {"k": 2, "axis": 0, "dtype": "int32"}),
    Matches("relax.median", ("float32[3, 5]",), {"axis": [1], "keepdims": True}),
    Matches("relax.median", ("float32[4, 2]",), {"axis": [0], "keepdims": False}),
    Matches("relax.median", ("float16[4, n]",), {"axis": None, "keepdims": False}),
]  # fmt: skip

_HEAD = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((3, 5), "float32"), out: T.Buffer((3, 5), "{dtype}")):
    {before}T.call_packed(
        "{name}",
        T.tvm_stack_make_array(
            x.data, T.tvm_stack_make_shape(3, 5), 0, 2, T.float32(0), {offset}
        ),
        T.tvm_stack_make_array(out.data, T.tvm_stack_make_shape(3, 5), 0, 2, T.{dtype}(0), 0),
        {arguments},
    )
{after}"""
_RIGHT = {
    "dtype": "float32", "before": "", "name": "tvm.contrib.sort.sort", "offset": 0,
    "arguments": "1, T.bool(True)", "after": "",
}  # fmt: skip


_TOPK = "tvm.contrib.sort.topk"


def _script(**changed: Any) -> str:
    return _HEAD.format(**_RIGHT | changed)


_STORE = """    for i, j in T.grid(3, 5):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = {value}
"""
REFUSES = [
    Refuses("an axis that is not there", _script(arguments="2, T.bool(True)")),
    Refuses("a function that is not known", _script(name="tvm.contrib.sort.sort_nms")),
    Refuses("an argument too many", _script(arguments="1, T.bool(True), 1")),
    Refuses("the array starts later", _script(offset=1)),
    Refuses("one array too few", _script(name=_TOPK, arguments='5, 1, "both", T.bool(True)')),
    Refuses("another shape", _script(name=_TOPK, arguments='2, 1, "values", T.bool(True)')),
    Refuses("a store after the sort", _script(after=_STORE.format(value="x[vi, vj]"))),
    Refuses("sorted values doubled", _script(after=_STORE.format(value="out[vi, vj] * 2.0"))),
    Refuses("the sort of a loop", _script(before="for k in range(2):\n        ")),
    Refuses("a sort under a condition", _script(before="if x[0, 0] > 0.0:\n        ")),
]  # fmt: skip


@recogniser(
    "sorts",
    precedence=445,
    ops=("relax.sort", "relax.argsort", "relax.topk", "relax.median"),
    externs=True,
)
def sorts(expression: TensorExpression) -> Sequence[Proposal] | Refusal:
    """Match outputs that are the results of one call, and the gathers of a median."""
    if len(expression.externs) != 1:
        return Refusal("it calls several extern functions")
    (call,) = expression.externs
    operand = bare(call.operands[0].body)
    if not isinstance(operand, Load) or operand.tensor not in expression.inputs:
        return Refusal("what is sorted is not a parameter")
    results = [_result(bare(definition.body)) for definition in expression.outputs]
    if results == list(call.results):
        return _PROPOSALS[call.function](call, operand.tensor)
    whole = len(call.operands[0].shape) == len(operand.tensor.shape)
    if call.function != "tvm.contrib.sort.argsort" or len(results) != 1 + whole:
        return Refusal("the outputs are not the results of the extern function")
    keepdims = len(expression.outputs[0].axes) == len(operand.tensor.shape)
    axis = int(call.arguments["axis"])
    attrs = {"axis": (axis,) if whole else None, "keepdims": keepdims}
    return [Proposal("relax.median", (operand.tensor.position,), attrs)]


def _result(term: Any) -> TensorVar | None:
    return term.tensor if isinstance(term, Load) and isinstance(term.tensor, ExternResult) else None


def _sort(call: ExternCall, operand: TensorVar) -> list[Proposal]:
    return [Proposal("relax.sort", (operand.position,), _order(call, "descending"))]


def _argsort(call: ExternCall, operand: TensorVar) -> list[Proposal]:
    attrs = {**_order(call, "descending"), "dtype": call.results[0].dtype}
    return [Proposal("relax.argsort", (operand.position,), attrs)]


def _topk(call: ExternCall, operand: TensorVar) -> list[Proposal]:
    kind = call.arguments["ret_type"]
    attrs = {"k": call.arguments["k"], **_order(call, "largest"), "ret_type": kind}
    if kind == "values":
        reason = "there are no indices in the result"
        notes = (Undetermined("dtype", reason, values=("int32", "int64")),)
        return [Proposal("relax.topk", (operand.position,), attrs, undetermined=notes)]
    attrs["dtype"] = call.results[-1].dtype
    return [Proposal("relax.topk", (operand.position,), attrs)]


def _order(call: ExternCall, flag: str) -> dict[str, Any]:
    return {"axis": call.arguments["axis"], flag: not call.arguments["is_ascend"]}


_PROPOSALS: dict[str, Callable[[ExternCall, TensorVar], list[Proposal]]] = {
    "tvm.contrib.sort.sort": _sort,
    "tvm.contrib.sort.argsort": _argsort,
    "tvm.contrib.sort.topk": _topk,
}
