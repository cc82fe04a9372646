"""Calls of operators whose sizes are symbols compute what numpy does, or fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relax

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.sizes.checked_sizes import checked_sizes
from opinfo.jit.arguments.acceptor import BoundaryError

from .size_modules import INT, Build, F, K, N, emitted, module

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

op, nn = relax.op, relax.op.nn


def _part(begin: int, end: int, stride: int) -> Build:
    return lambda x: op.strided_slice(x, [0], [begin], [end], [stride], assume_inbound=True)


TABLE = np.arange(1, 13, dtype="float32").reshape(3, 4)
#: What is computed, what numpy computes, and operands for which it is defined, and is not.
RUNS: dict[str, tuple[Build, tuple[Any, ...], Callable[..., Any], list[Any], list[Any]]] = {
    "batches": (lambda x, i: op.gather_nd(x, i, 1), ((N, 4), ((K, 1), INT)),
                lambda x, i: x[np.arange(len(i)), i[:, 0]],
                [TABLE, np.array([[3], [0], [1]])], [TABLE, np.zeros((5, 1), INT)]),
    "columns": (lambda x, i, u: op.scatter_elements(x, i, u, 0), ((3, N), ((1, K), INT), (1, K)),
                lambda x, i, u: np.concatenate([x[:2], [np.append(u[0], x[2, 2:])]]),
                [TABLE, np.full((1, 2), 2), -TABLE[:1, :2]],
                [TABLE, np.ones((1, 6), INT), np.ones((1, 6), F)]),
    "values": (lambda x, i, u: op.index_put(x, (i,), u), ((4,), ((N,), INT), (K,)),
               lambda x, i, u: np.array([u[1], x[1], u[0], x[3]]),
               [TABLE[0], np.array([2, 0]), -TABLE[1, :2]],
               [TABLE[0], np.array([2, 0]), TABLE[1, :1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_call_that_would_read_or_write_outside_fails(name: str) -> None:
    build, types, oracle, good, bad = RUNS[name]
    compiled = opinfo.compile(module(build, *types), [])
    np.testing.assert_array_equal(compiled.run(*good), oracle(*good))
    with pytest.raises(BoundaryError, match="only defined for"):
        compiled.run(*bad)


#: What is computed of (3, 4), and what numpy computes; no size contradicts the operators.
DEFINED: dict[str, tuple[Build, Callable[[Any], Any]]] = {
    "a slice whose end is beyond": (_part(0, 4, 2), lambda x: x[0:4:2]),
    "a slice back": (_part(2, 1, -3), lambda x: x[2:1:-3]),
    "a scale of one element": (
        lambda x: op.dequantize(op.astype(x, "int8"), relax.const(np.full(1, 2, F)),
                                relax.const(np.zeros(1, "int8"), "int8"), 1), lambda x: 2 * x),
    "one slope": (lambda x: nn.prelu(op.negative(x), relax.const(np.full(1, 2, F)), 1),
                  lambda x: -2 * x),
    "a clipped index": (lambda x: op.take(x, relax.const(np.array([-7, 9])), 0, mode="clip"),
                        lambda x: x[[0, 2]]),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFINED)
def test_what_an_operator_allows_is_not_refused(name: str) -> None:
    build, oracle = DEFINED[name]
    mod = module(lambda x: emitted(build(x)), (3, 4))
    assert checked_sizes(mod).same_as(mod)
    np.testing.assert_array_equal(opinfo.compile(mod, []).run(TABLE), oracle(TABLE))


def _branches() -> Any:
    """A function whose first branch takes a row that is not there."""
    builder = relax.BlockBuilder()
    chosen, x = (relax.Var("c", relax.TensorType((), "bool")),
                 relax.Var("x", relax.TensorType((3,), F)))  # fmt: skip

    def branch(value: Any) -> Any:
        out = relax.Var("out", relax.TensorType((1,), F))
        return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(out, value)])], out)

    taken = (op.take(x, relax.const(np.array([k])), 0, mode="fast") for k in (9, 1))
    with builder.function("main", [chosen, x]):
        out = builder.emit(relax.If(chosen, *(branch(builder.normalize(t)) for t in taken)))
        builder.emit_func_output(out)
    return builder.get()


def test_a_branch_that_is_not_run_may_contradict() -> None:
    compiled = opinfo.compile(_branches(), [])
    np.testing.assert_array_equal(compiled.run(np.array(False), TABLE[0, :3]), TABLE[0, 1:2])
    reason = r"^main: relax.take of [^\n]*: size 0 of operand 0 is 3, expected more than 9; correct"
    with pytest.raises(ValueError, match=reason):
        compiled.run(np.array(True), TABLE[0, :3])
