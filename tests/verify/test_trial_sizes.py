"""By which calls builds with symbolic sizes are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.front.race import rivals
from opinfo.jit.arguments.signature import Param, Signature
from opinfo.jit.config.strategy import Dim
from opinfo.verify import trial_values
from opinfo.verify.trial_inputs import trial_calls, undrawable
from opinfo.verify.trial_sizes import MANY, PAST, PROMPT, ROOM, SOME, ComparedModule, sized_calls
from opinfo.verify.trial_values import ShapeArgument, TrialCall, layout_of, restored, tensors_of


def step(batch: Any = 1, tokens: Any = None) -> Any:
    """Sums of new rows and of those of a cache, and the cache with the new rows."""
    n, p = tirx.Var("n", "int64") if tokens is None else tokens, tirx.Var("p", "int64")
    new = relax.Var("new", relax.TensorType((batch, n, 4), "float32"))
    past = relax.Var("past", relax.TensorType((batch, p, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [new, past]):
        with bb.dataflow():
            both = bb.emit_output(relax.op.concat([past, new], 1))
            out = bb.emit_output(relax.op.sum(both, [1]))
        results = bb.emit(relax.Tuple([out, both]))
        bb.emit_func_output(results)
    return bb.get()


def net(*extents: Any) -> Any:
    x = relax.Var("x", relax.TensorType(extents, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.op.exp(x)))
    return bb.get()


def var(name: str) -> Any:
    return tirx.Var(name, "int64")


def sizes(mod: Any, **dims: Dim) -> list[dict[str, int]]:
    return [dict(call.sizes) for call in sized_calls(ComparedModule(mod, dims))]


def test_a_cache_is_called_with_a_step_and_a_prompt() -> None:
    assert sizes(step()) == [{"n": 1, "p": PAST}, {"n": PROMPT, "p": 0}]
    batched = [{"b": 1, "n": 1, "p": PAST}, {"b": 1, "n": PROMPT, "p": 0}]
    assert sizes(step(var("b"))) == batched
    assert sizes(step(tokens=1)) == [{"p": PAST}, {"p": 0}]


def test_a_cache_in_place_has_room_for_the_rows() -> None:
    mod = opinfo.transform.AppendToCaches()(step())
    of = [{"n": 1, "p": PAST, "capacity": ROOM}, {"n": PROMPT, "p": 0, "capacity": ROOM}]
    assert sizes(mod) == of
    first, second = trial_calls(mod)
    assert [v.shape if isinstance(v, tvm.runtime.Tensor) else v for v in first.values] == [
        (1, 1, 4), (1, ROOM, 4), ShapeArgument((PAST,))]  # fmt: skip
    assert second.values[0].shape == (1, PROMPT, 4) and second.values[2] == ShapeArgument((0,))


@pytest.mark.parametrize(("extents", "expected"), [
    ((2, 3), [{}]),
    ((var("n"), 3), [{"n": 1}, {"n": MANY}]),
    ((var("b"), var("n")), [{"b": SOME, "n": SOME}, {"b": 1, "n": MANY}]),
])  # fmt: skip
def test_functions_without_caches(extents: Any, expected: Any) -> None:
    assert sizes(net(*extents)) == expected


@pytest.mark.parametrize(("dim", "expected"), [
    (Dim(1, 8), [1, 8]), (Dim(16, 512, 16), [16, 64]), (Dim(3, None, 5), [5, 65]),
    (Dim(1, 512, likely=(7, 300)), [7]), (Dim(1, 512, likely=(2, 70)), [2, 70]),
])  # fmt: skip
def test_declared_dimensions_limit_the_sizes(dim: Dim, expected: list[int]) -> None:
    assert [s["n"] for s in sizes(net(var("n"), 3), n=dim)] == expected


def test_sizes_that_a_function_refuses_are_left_out() -> None:
    """The program adds to a tensor of n rows one of 2 * 32, so n must be 64."""
    n = var("n")
    x = relax.Var("x", relax.TensorType((n, 3), "float32"))
    y = relax.const(np.ones((MANY, 3), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        cast = bb.match_cast(x, relax.TensorType((MANY, 3), "float32"))
        bb.emit_func_output(bb.emit(relax.op.add(cast, y)))
    assert sizes(bb.get()) == [{"n": MANY}]


def test_sizes_from_which_a_shape_does_not_follow_are_left_out() -> None:
    """A prompt has no rows before it, and this tensor would have one less."""
    n, p = var("n"), var("p")
    new = relax.Var("new", relax.TensorType((1, n, 4), "float32"))
    past = relax.Var("past", relax.TensorType((1, p, 4), "float32"))
    less = relax.Var("less", relax.TensorType((p - 1,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [new, past, less]):
        with bb.dataflow():
            both = bb.emit_output(relax.op.concat([past, new], 1))
        bb.emit_func_output(both)
    assert sizes(bb.get()) == [{"n": 1, "p": PAST}]


def test_what_cannot_be_drawn_is_not_raced() -> None:
    target = tvm.target.Target("llvm")
    known = Param("x", "float32", ("n", 4))
    tuples = Param("t", None, None, kind="tuple", fields=(known, known))
    for param, drawn in ((known, True), (tuples, True), (Param("x", "float32", None), False),
                         (Param("x", "float32", (None, 4)), False),
                         (Param("x", None, ("n", 4)), False),
                         (Param("f", None, None, kind="object"), False)):  # fmt: skip
        signature = Signature("main", (known, param))
        assert (undrawable(signature) is None) == drawn
        assert drawn or rivals(target, {"main": signature}) == []


def test_arguments_are_restored_from_their_layout() -> None:
    one, two = (tvm.runtime.tensor(np.full((2,), k, "float32")) for k in (1, 2))
    calls = [TrialCall("f", (one, (two, ShapeArgument((3, 4))), 5)), TrialCall("g", (two,))]
    tensors = [t for call in calls for t in tensors_of(call.values)]
    (f, values), (g, more) = layout_of(calls)
    assert (f, g) == ("f", "g") and len(tensors) == 3
    first, (second, shape), number = (restored(v, tensors) for v in values)
    assert first.same_as(one) and second.same_as(two) and list(shape) == [3, 4] and number == 5
    assert restored(more[0], tensors).same_as(two)


def test_tensors_without_elements_are_written(tmp_path: Path) -> None:
    """A prompt has an empty cache, which TVM's format of parameters cannot read."""
    arrays = [np.zeros((2, 0, 3), "float16"), np.arange(4), np.zeros((0,), "int32")]
    trial_values.save([tvm.runtime.tensor(a) for a in arrays], tmp_path / "file")
    loaded = [tensor.numpy() for tensor in trial_values.load(tmp_path / "file")]
    assert [(a.shape, a.dtype) for a in loaded] == [(a.shape, a.dtype) for a in arrays]
    np.testing.assert_array_equal(loaded[1], arrays[1])


def test_results_that_are_tuples_are_not_caches() -> None:
    """A call of a PrimFunc with two results, of which the function returns both."""
    n = var("n")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            halves = bb.emit_output(relax.op.split(x, 2, 1))
        bb.emit_func_output(halves)
    assert sizes(bb.get()) == [{"n": 1}, {"n": MANY}]
