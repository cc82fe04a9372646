"""Numbers that contradict an operator are refused, and sizes that contradict one at the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.analysis.lifting.tir.node import NodeDict, substitute
from opinfo.analysis.support.origin import span
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION, sym
from opinfo.frontend.sizes.checked_sizes import checked_sizes

from .size_modules import INT, Build, F, K, N, emitted, module

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

op, nn = relax.op, relax.op.nn


def _index(*values: int) -> Any:
    return relax.const(np.array(values, "int64"), "int64")


def _slice(begin: Any, end: Any, stride: Any) -> Build:
    return lambda x: op.strided_slice(x, [0], [begin], [end], [stride], assume_inbound=True)


def _suppressed(boxes: Any, scores: Any) -> Any:
    numbers = (relax.const(2, INT), relax.const(0.5, F), relax.const(0.1, F))
    return op.vision.all_class_non_max_suppression(boxes, scores, *numbers)


#: An operator, types, and what is said of it.
CONTRADICTIONS: dict[str, tuple[Build, tuple[Any, ...], str]] = {
    "a pool": (lambda x: nn.max_pool2d(x, (9, 9)), ((1, 3, 4, 4),),
               "size 2 of the result is -4, expected at least 0"),
    "a padding": (lambda x: nn.pad(x, [-3, -3]), ((4,),),
                  "size 0 of the result is -2, expected at least 0"),
    "a resize": (lambda x: op.image.resize2d(x, (-3, 3)), ((1, 2, 4, 4),),
                 "size 2 of the result is -3, expected at least 0"),
    "topk": (lambda x: op.topk(x, 9), ((5,),), "size 0 of operand 0 is 5, expected at least 9"),
    "take": (lambda x: op.take(x, _index(9), 0, mode="fast"), ((3, 4),),
             "size 0 of operand 0 is 3, expected more than 9"),
    "take before": (lambda x: op.take(x, _index(-1), 0, mode="fast"), ((3, 4),),
                    "the smallest index is -1, expected at least 0"),
    "a slice": (_slice(1, 9, 1), ((5, 4),), "the end along axis 0 is 9, expected at most 5"),
    "a slice in steps": (_slice(0, 8, 3), ((6,),), "the end along axis 0 is 7, expected at most 6"),
    "a slice beyond": (_slice(8, 2, -3), ((5,),),
                       "the begin along axis 0 is 8, expected at most 4"),
    "a slice back": (_slice(4, 0, -1), ((5,),),
                     "the last index along axis 0 is -1, expected at least 0"),
    "a slice back with its end": (_slice(4, 0, -2), ((5,),),
                                  "size 0 of the result is 3, expected 2"),
    "a split": (lambda x: op.split(x, [2, 9], 0), ((5,),),
                "size 0 of operand 0 is 5, expected at least 9"),
    "splits": (lambda x: op.split(x, [4, 2], 0), ((5,),),
               "a split of axis 0 is 2, expected more than 4"),
    "sections": (lambda x: op.split(x, 4, 0), ((5,),),
                 "size 0 of the result is -1, expected at least 0"),
    "gather_elements": (lambda x, i: op.gather_elements(x, i, 0), ((3, 4), ((2, 6), INT)),
                        "size 1 of operand 1 is 6, expected at most 4"),
    "gather_nd": (lambda x, i: op.gather_nd(x, i, 1), ((3, 4), ((5, 1), INT)),
                  "size 0 of operand 1 is 5, expected 3"),
    "scatter_elements": (lambda x, i, u: op.scatter_elements(x, i, u, 0),
                         ((3, 4), ((2, 6), INT), (2, 6)),
                         "size 1 of operand 1 is 6, expected at most 4"),
    "index_put": (lambda x, i, u: op.index_put(x, (i,), u), ((3,), ((2,), INT), (1,)),
                  "the number of values is 1, expected 2"),
    "index_put of two": (lambda x, i, j, u: op.index_put(x, (i, j), u),
                         ((3, 4), ((2,), INT), ((3,), INT), (3,)),
                         "size 0 of operand 0 is 2, expected 3"),
    "prelu": (lambda x, y: nn.prelu(x, y, 1), ((3, 4), (5,)),
              "size 0 of operand 1 is 5, expected 4"),
    "grid_sample": (op.image.grid_sample, ((1, 2, 4, 4), (2, 2, 3, 3)),
                    "size 0 of operand 1 is 2, expected 1"),
    "boxes": (_suppressed, ((1, 5, 4), (1, 2, 6)), "size 2 of operand 1 is 6, expected 5"),
    "symbols": (lambda x, y, z: op.add(op.matmul(x, y), op.matmul(x, z)),
                ((N, K), (8, 5), (9, 5)), "size 1 of operand 0 is 8, expected 9"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_refused_in_one_line(name: str) -> None:
    build, types, message = CONTRADICTIONS[name]
    mod = module(lambda *xs: emitted(build(*xs)), *types)
    with pytest.raises(ValueError, match=r"^relax\.\S+ of float32\[") as raised:
        opinfo.compile(mod, [])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_node_is_named() -> None:
    call = op.topk(relax.Var("x", relax.TensorType((5,), F)), 9, ret_type="values")
    call = relax.BlockBuilder().normalize(call)
    named = relax.Var("v", call.ty, span("largest"))
    body = relax.SeqExpr([relax.BindingBlock([relax.VarBinding(named, call)])], named)
    func = relax.Function([call.args[0]], body, call.ty).with_attr("global_symbol", "main")
    with pytest.raises(ValueError, match=r"^largest: relax.topk of float32\[5\]: size 0"):
        checked_sizes(tvm.IRModule({"main": func}))


#: An operator, types, and whether it is defined for n and k.
SIZES: dict[str, tuple[Build, tuple[Any, ...], Callable[[int, int], bool]]] = {
    "gather_nd": (lambda x, i: op.gather_nd(x, i, 1), ((N, 4), ((K, 1), INT)), lambda n, k: n == k),
    "gather_elements": (lambda x, i: op.gather_elements(x, i, 0), ((3, N), ((7, K), INT)),
                        lambda n, k: k <= n),
    "scatter_elements": (lambda x, i, u: op.scatter_elements(x, i, u, 0),
                         ((3, N), ((2, K), INT), (2, K)), lambda n, k: k <= n),
    "updates": (lambda x, i, u: op.scatter_elements(x, i, u, 0), ((3,), ((N,), INT), (K,)),
                lambda n, k: k == n),
    "index_put": (lambda x, i, u: op.index_put(x, (i,), u), ((3,), ((N,), INT), (K,)),
                  lambda n, k: k == n),
    "slice_scatter": (lambda x, u: op.slice_scatter(x, u, 0, 5, 2, 0), ((6,), (N,)),
                      lambda n, k: n == len(range(0, 5, 2))),
    "losses": (nn.cross_entropy_with_logits, ((N, 4), (K, 4)), lambda n, k: k == n),
    "heads": (nn.attention, ((1, 2, N, 4), (1, 3, K, 4), (1, 3, K, 4)), lambda n, k: n % k == 0),
    "groups": (lambda x: nn.group_norm(x, relax.const(np.ones(6, F)), relax.const(np.ones(6, F)),
                                       2, 1, [2]), ((1, N, 3),), lambda n, k: n == 6),
    "groups of channels": (lambda x, y: nn.group_norm(x, y, y, 2, 1, [2]), ((1, N, 3), (K,)),
                           lambda n, k: n == k and n % 2 == 0),
    "filters": (lambda x, w: nn.conv1d(x, w, groups=2), ((1, N, 5), (K, 2, 1)),
                lambda n, k: n == 4 and k % 2 == 0),
    "boxes": (_suppressed, ((1, N, 4), (1, 2, K)), lambda n, k: k == n),
    "a split": (lambda x: op.split(x, [2, 4], 0), ((N,),), lambda n, k: n >= 4),
    "a slice": (_slice(1, 5, 1), ((N,),), lambda n, k: n >= 5),
    "a slice in steps": (_slice(0, 6, 2), ((N,),), lambda n, k: n >= 5),
    "a slice in k steps": (lambda x, y: _slice(0, 8, K)(x), ((N,), (K,)),
                           lambda n, k: n > max(range(0, 8, k))),
    "a slice back": (_slice(4, 0, -2), ((N,),), lambda n, k: n >= 5),
    "a slice of n in steps": (_slice(0, N, 3), ((N,),), lambda n, k: True),
    "packed channels": (
        lambda x: nn.conv2d(x, relax.const(np.ones((2, 2, 3, 3, 4, 4), F)), data_layout="NCHW4c",
                            kernel_layout="OIHW4i4o", out_layout="NCHW4c"),
        ((1, N, 5, 5, 4),), lambda n, k: n == 2),
    "symbolic parts of channels": (
        lambda x: nn.conv2d(x, relax.const(np.ones((2, 4, 3, 3, 2, 4), F)), data_layout="NCHW4c",
                            kernel_layout="OIHW2i4o", out_layout="NCHW4c"),
        ((1, N, 5, 5, 4),), lambda n, k: n == 2),
    "a row": (lambda a, b: op.einsum((a, b), "...ij,...jk->...ik"), ((2, 3, N), (2, K, 3)),
              lambda n, k: k == n),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_the_conditions_are_those_of_the_operator(name: str) -> None:
    build, types, defined = SIZES[name]
    checked = checked_sizes(module(build, *types))["main"]
    bindings = [b for block in checked.body.blocks for b in block.bindings]
    conditions = [b.ty.values[0].condition for b in bindings if isinstance(b, relax.MatchCast)]
    for n in range(1, 9):
        for k in range(1, 9):
            assert _hold(conditions, {N: n, K: k}) == defined(n, k), (n, k, conditions)


def _hold(conditions: list[Any], sizes: dict[Any, int]) -> bool:
    numbers: NodeDict[Any] = NodeDict()
    for var, size in sizes.items():
        numbers[var] = tirx.IntImm("int64", size)
    return all(sym.Analyzer().simplify(substitute(c, numbers)).value for c in conditions)


def test_a_function_that_is_not_exported_may_contradict() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((5,), F))
    with builder.function("unused", [x], private=True):
        builder.emit_func_output(builder.emit(op.topk(x, 9, ret_type="values")))
    checked = checked_sizes(builder.get())["unused"]
    assert any(isinstance(b, relax.MatchCast) for b in checked.body.blocks[0].bindings)
