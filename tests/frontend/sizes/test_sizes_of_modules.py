"""Sizes of Relax modules that contradict an operator are refused, not read past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.frontend.sizes.checked_sizes import checked_sizes
from opinfo.frontend.sizes.requirement import Requirement
from opinfo.jit.arguments.acceptor import BoundaryError

pytestmark = pytest.mark.skipif(VERSION < COMPLETE, reason="compiles models")

W = np.arange(30, dtype="float32").reshape(6, 5)
op = relax.op


def module(compute: Callable[[Any, Any], Any]) -> tvm.IRModule:
    """Return a module of float32 (m, k) and (n,)."""
    m, k, n = (tirx.Var(name, "int64") for name in "mkn")
    x = relax.Var("x", relax.TensorType((m, k), "float32"))
    y = relax.Var("y", relax.TensorType((n,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            out = builder.emit_output(compute(x, y))
        builder.emit_func_output(out)
    return builder.get()


#: What is computed, what numpy computes, sizes (m, k, n) that fit, others, and the condition.
CASES: dict[str, tuple[Any, ...]] = {
    "product": (lambda x, y: op.matmul(x, relax.const(W)), lambda x, y: x @ W,
                (2, 6, 1), (2, 9, 1), "k == 6"),
    "products": (op.matmul, lambda x, y: x @ y, (2, 4, 4), (2, 4, 3), "k == n"),
    "rows": (lambda x, y: op.take(x, relax.const(np.array([3, 0]), "int64"), 0),
             lambda x, y: x[[3, 0]], (4, 2, 1), (3, 2, 1), "3 < m"),
}  # fmt: skip


@pytest.mark.parametrize("shapes", [None, "jit"])
@pytest.mark.parametrize("name", CASES)
def test_a_call_fails_where_sizes_contradict_an_operator(name: str, shapes: Any) -> None:
    compute, oracle, good, bad, condition = CASES[name]
    compiled = opinfo.compile(module(compute), [], shapes=shapes)
    rng = np.random.default_rng(0)

    def arrays(m: int, k: int, n: int) -> list[Any]:
        return [rng.random((m, k), "float32"), rng.random(n, "float32")]

    inputs = arrays(*good)
    np.testing.assert_allclose(compiled.run(*inputs), oracle(*inputs), rtol=1e-5)
    with pytest.raises(BoundaryError, match=f"the model is only defined for {condition}: main"):
        compiled.run(*arrays(*bad))


def test_a_module_that_checks_its_sizes_stays() -> None:
    once = checked_sizes(module(CASES["rows"][0]))
    assert once["main"].script().count("match_cast") == 1
    assert checked_sizes(once).same_as(once)
    fixed = module(lambda x, y: op.add(x, x))
    assert checked_sizes(fixed).same_as(fixed)


@pytest.mark.parametrize("shapes", [None, "jit"])
def test_an_operator_of_unknown_sizes_is_refused_with_its_types(shapes: Any) -> None:
    message = r"^relax.add of float32\[m, k\], float32\[n\]: TVM cannot infer its sizes"
    with pytest.raises(ValueError, match=message):
        opinfo.compile(module(op.add), [], shapes=shapes)


def test_a_result_of_unknown_sizes_in_a_tuple_is_refused() -> None:
    """TVM's code generation failed on it with an internal error."""

    def normed(x: Any, y: Any) -> Any:
        return op.nn.batch_norm(x, y, y, y, y, 1, training=False)

    message = (
        r"^relax.nn.batch_norm of float32\[m, k\], float32\[n\], .*: TVM cannot infer its sizes"
    )
    with pytest.raises(ValueError, match=message):
        opinfo.compile(module(normed), [])


SLOPES = W[0] - 2
#: What is computed of (3, 6), and what numpy computes; no size contradicts the operators.
DEFINED: dict[str, tuple[Any, ...]] = {
    "clipped rows": (lambda x: op.take(x, relax.const(np.array([7, 0]), "int64"), 0, mode="clip"),
                     lambda x: x[[2, 0]]),
    "wrapped rows": (lambda x: op.take(x, relax.const(np.array([7, -1]), "int64"), 0, mode="wrap"),
                     lambda x: x[[1, 2]]),
    "slopes of channels": (
        lambda x: op.nn.prelu(op.permute_dims(op.matmul(x, relax.const(W))),
                              relax.const(SLOPES), axis=0),
        lambda x: np.where(x @ W > 0, x @ W, (x @ W) * SLOPES).T),
}  # fmt: skip


@pytest.mark.parametrize("name", DEFINED)
def test_sizes_that_an_operator_allows_are_not_refused(name: str) -> None:
    compute, oracle = DEFINED[name]
    x = np.random.default_rng(0).standard_normal((3, 6)).astype("float32")
    compiled = opinfo.compile(module(lambda a, _: compute(a)), [])
    np.testing.assert_allclose(compiled.run(x, np.zeros(1, "float32")), oracle(x), rtol=1e-4,
                               atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("key", ["Primitive", "Composite", "Codegen"])
def test_a_fused_function_has_no_checks_which_tvm_does_not_take(key: str) -> None:
    mod = module(CASES["product"][0])
    mod["main"] = mod["main"].with_attr(key, True)
    assert checked_sizes(mod).same_as(mod)


def test_a_slice_whose_axes_are_a_variable_stays() -> None:
    def sliced(x: Any, _: Any) -> Any:
        axes = relax.BlockBuilder.current().emit(relax.Tuple([relax.prim_value(0)]))
        return op.strided_slice(x, axes, [1], [3], assume_inbound=True)

    mod = module(sliced)
    assert checked_sizes(mod).same_as(mod)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_that_begins_before_its_axis_is_refused(axis: int) -> None:
    """TVM's code read three elements in front of the tensor."""
    mod = module(lambda x, y: op.strided_slice(x, [axis], [-3], [2], assume_inbound=True))
    message = f"^relax.strided_slice of .*: the begin along axis {axis} is -3, expected at least 0"
    with pytest.raises(ValueError, match=message):
        opinfo.compile(mod, [])


def test_only_a_requirement_that_is_not_met_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[Requirement] = []
    contradiction = Requirement.contradiction

    def describe(requirement: Requirement, *args: Any) -> str:
        described.append(requirement)
        return contradiction(requirement, *args)

    monkeypatch.setattr(Requirement, "contradiction", describe)
    x, y = (relax.Var(name, relax.TensorType((2, 6), "float32")) for name in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            rows = builder.emit(op.concat([x, y], axis=0))
            out = builder.emit_output(op.matmul(rows, relax.const(W)))
        builder.emit_func_output(out)
    fixed = builder.get()
    assert checked_sizes(fixed).same_as(fixed)
    assert not described
    lossy = module(lambda x, y: op.take(relax.const(W), relax.const(np.array([9]), "int64"), 0))
    with pytest.raises(ValueError, match="expected"):
        checked_sizes(lossy)
    assert len(described) == 1
