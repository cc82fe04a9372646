"""OpenBLAS: what it computes is what TVM computes, with extents that are known at run time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backend.backend import find
from opinfo.byoc.backends.blas.locate import library
from opinfo.byoc.backends.blas.patterns import PATTERNS
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch

from ..layout import nets
from ..run import run

nn, op = relax.op.nn, relax.op
N, M = (tvm.tirx.Var(x, "int64") for x in "nm")
SIZES = {"n": 3, "m": 7}
Shape = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """``build(emit, const, *inputs)``, and the operators of the region that it is."""

    shapes: tuple[Shape, ...]
    build: Callable[..., Any]
    ops: str = "matmul"


def _plain(e: Any, c: Any, x: Any, y: Any) -> Any:
    return e(op.matmul(x, y))


def _chain(*after: Callable[[Any, Any], Any], ops: str, shape: Shape = (4, 6)) -> Case:
    """A product with a constant matrix, and functions of it."""

    def build(e: Any, c: Any, x: Any) -> Any:
        y = e(op.matmul(x, c(6, 5)))
        for f in after:
            y = e(f(y, c))
        return y

    return Case((shape,), build, f"matmul {ops}")


def _permuted(left: list[int] | None, right: list[int] | None) -> Callable[..., Any]:
    def build(e: Any, c: Any, x: Any, y: Any) -> Any:
        x = x if left is None else e(op.permute_dims(x, left))
        y = y if right is None else e(op.permute_dims(y, right))
        return e(op.matmul(x, y))

    return build


def _residual(e: Any, c: Any, x: Any, y: Any) -> Any:
    z = e(op.matmul(x, c(6, 5)))
    return e(nn.relu(e(op.subtract(y, e(op.add(z, c(5)))))))


def _each(name: str, *args: Any) -> Case:
    f = getattr(op, name, None) or getattr(nn, name)
    return _chain(lambda y, c: f(y, *args), ops=name)


CASES: dict[str, Case] = {
    "plain": Case(((4, 6), (6, 5)), _plain),
    "one row": Case(((1, 6), (6, 5)), _plain),
    "one column": Case(((4, 6), (6, 1)), _plain),
    "one term": Case(((4, 1), (1, 5)), _plain),
    "of a batch": Case(((3, 4, 6), (3, 6, 5)), _plain),
    "broadcast": Case(((2, 1, 4, 6), (3, 6, 5)), _plain),
    "the matrix first": Case(((4, 6), (3, 6, 5)), _plain),
    "extents at run time": Case(((N, 4, M), (N, M, 5)), _plain),
    "rows at run time": Case(((N, M, 6), (6, 5)), _plain),
    "second transposed": Case(((4, 6), (5, 6)), _permuted(None, [1, 0]), "permute_dims matmul"),
    "first transposed": Case(((6, 4), (6, 5)), _permuted([1, 0], None), "permute_dims matmul"),
    "both transposed": Case(((6, 4), (5, 6)), _permuted([1, 0], [1, 0]), "permute_dims matmul"),
    "keys of heads": Case(((2, 3, N, 4), (2, M, 3, 4)), _permuted(None, [0, 2, 3, 1]),
                          "permute_dims matmul"),
    "values of heads": Case(((2, 3, 5, M), (2, M, 3, 4)), _permuted(None, [0, 2, 1, 3]),
                            "permute_dims matmul"),
    "queries of heads": Case(((2, N, 3, 4), (2, 3, 4, 5)), _permuted([0, 2, 1, 3], None),
                             "permute_dims matmul"),
    "one head of one": Case(((2, 1, 3, 4), (2, 3, 4, 5)), _permuted([0, 2, 1, 3], None),
                            "permute_dims matmul"),
    "bias, relu": _chain(lambda y, c: op.add(y, c(5)), lambda y, c: nn.relu(y), ops="add relu"),
    "dense": _chain(lambda y, c: op.add(c(5), y), lambda y, c: nn.gelu(y), ops="add gelu",
                    shape=(N, 3, 6)),
    "rows, columns, all": _chain(
        lambda y, c: op.multiply(y, c(3, 1)), lambda y, c: op.divide(c(2, 1, 5), y),
        lambda y, c: op.maximum(y, c(1)), lambda y, c: op.minimum(c(2, 3, 5), y),
        ops="multiply divide maximum minimum", shape=(2, 3, 6)),
    "literals": _chain(
        lambda y, c: op.subtract(_literal(y, 1.0), y),
        lambda y, c: op.multiply(y, _literal(y, -1.5)), lambda y, c: op.divide(y, _literal(y, 3.0)),
        ops="subtract multiply divide"),
    "with itself": _chain(lambda y, c: op.multiply(y, y), ops="multiply"),
    "residual": Case(((4, 6), (4, 5)), _residual, "matmul add subtract relu"),
    "bounded": _chain(lambda y, c: op.clip(y, -0.25, 0.5), ops="clip"),
    "leaky": _chain(lambda y, c: nn.leakyrelu(y, 0.1), ops="leakyrelu"),
    **{f: _each(f) for f in ("sigmoid", "silu", "tanh", "exp", "abs", "square", "negative",
                             "gelu_tanh", "softplus")},
}  # fmt: skip


def _literal(y: Any, value: float) -> Any:
    return relax.const(value, str(y.ty.dtype))


#: What is also tried in float64.
DOUBLE = ("one row", "keys of heads", "dense", "literals", "gelu_tanh")


def cases(dtype: str) -> dict[str, Case]:
    return {k: c for k, c in CASES.items() if dtype == "float32" or k in DOUBLE}


def module(dtype: str = "float32") -> Any:
    """All cases in one function: an input for each shape, a tuple of the results."""
    rng = np.random.default_rng(0)

    def const(*shape: int) -> Any:
        return relax.const(rng.standard_normal(shape).astype(dtype), dtype)

    given = [[relax.Var(f"x{k}_{j}", relax.TensorType(s, dtype)) for j, s in enumerate(c.shapes)]
             for k, c in enumerate(cases(dtype).values())]  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", [v for vs in given for v in vs]):
        with bb.dataflow():
            made = [c.build(bb.emit, const, *vs)
                    for c, vs in zip(cases(dtype).values(), given, strict=True)]  # fmt: skip
            out = bb.emit_output(relax.Tuple(made))
        bb.emit_func_output(out)
    return bb.get()


def inputs(dtype: str) -> list[Any]:
    rng = np.random.default_rng(1)
    sized = [[e if isinstance(e, int) else SIZES[e.name] for e in s]
             for c in cases(dtype).values() for s in c.shapes]  # fmt: skip
    return [rng.standard_normal(s).astype(dtype) for s in sized]


@functools.cache
def compiled(dtype: str) -> CompiledModule:
    return compile_module(module(dtype), ["blas"], plan=False)


@functools.cache
def results(dtype: str) -> tuple[list[Any], list[Any]]:
    given = inputs(dtype)
    found = compiled(dtype).machine()["main"](*map(tvm.runtime.tensor, given))
    return run(module(dtype), given), [t.numpy() for t in found]


@pytest.mark.parametrize(("name", "dtype"), [
    *((name, "float32") for name in CASES), *((name, "float64") for name in DOUBLE),
])  # fmt: skip
def test_the_result_is_that_of_tvm(name: str, dtype: str) -> None:
    k = list(cases(dtype)).index(name)
    expected, found = (side[k] for side in results(dtype))
    exact = 2e-4 if dtype == "float32" else 1e-9
    np.testing.assert_allclose(found, expected, rtol=exact, atol=exact / 10)


def test_every_case_is_taken_whole() -> None:
    taken = sorted(
        " ".join(o.rpartition(".")[2] for o in t.ops) for t in compiled("float32").dispatched.taken
    )
    assert taken == sorted(c.ops for c in CASES.values())
    left = {o.op for o in compiled("float32").dispatched.left}
    assert left == {"relax.permute_dims"}  # the other one of "both transposed"


def test_attention_is_taken_with_its_permutations() -> None:
    assert library() is not None and find("blas").patterns is PATTERNS
    taken = dispatch(nets.net(nets.attention, (2, 5, 8)), ["blas"]).taken
    assert sum(t.ops.count("relax.matmul") for t in taken) == 5
    assert sum(t.pattern == "permuted" for t in taken) == 2


def test_extents_may_be_others_at_each_call() -> None:
    mod = nets.net(lambda e, r, x: e(op.matmul(x, nets.const(r, 6, 5))), (N, 6), legal=False)
    machine = compile_module(mod, ["blas"]).machine()
    for size in (1, 7, 64, 0, 7):
        x = np.random.default_rng(size).standard_normal((size, 6)).astype("float32")
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(found, run(mod, [x])[0], rtol=1e-4, atol=1e-5)


def test_a_region_takes_only_the_tensors_that_it_was_made_for() -> None:
    mod = nets.net(lambda e, r, x: e(op.matmul(x, nets.const(r, 6, 5))), (N, 6), legal=False)
    found = compile_module(mod, ["blas"])
    made = tvm.runtime.load_module(str(found.library))
    region = made.get_function("blas_0", query_imports=True)
    x, out = np.zeros((3, 6), "float32"), tvm.runtime.tensor(np.zeros((3, 5), "float32"))
    for wrong in (x.astype("float64"), x[:, :5].copy(), x[0]):
        with pytest.raises(TypeError, match=r"blas_0: argument 0 must be .* f32\[\?, 6\]"):
            region(tvm.runtime.tensor(wrong), out)
    with pytest.raises(TypeError, match="blas_0: 1 arguments, expected 2"):
        region(out)
    with pytest.raises(TypeError, match="argument 0"):
        region(7, out)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Shape, ...], str]] = {
    "vector": (lambda e, r, x, y: e(op.matmul(x, y)), ((6,), (6, 5)), "of rank 1 and 2, 2 to 8"),
    "dtype": (lambda e, r, x: e(op.matmul(e(op.astype(x, "float16")), relax.const(
        np.zeros((6, 5), "float16")))), ((4, 6),), "the dtype is float16, float32 or float64"),
    "batch goes inside": (lambda e, r, x, y: e(op.matmul(e(op.permute_dims(x, [2, 0, 1])), y)),
                          ((3, 4, 6), (4, 5)), "axes is [2, 0, 1]: the last one is taken as one"),
    "broadcast by what follows": (
        lambda e, r, x: e(op.add(e(op.matmul(x, nets.const(r, 6, 5))), nets.const(r, 2, 4, 5))),
        ((4, 6),), "relax.add broadcasts the value that it follows"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_names_what_was_got_and_what_is_taken(name: str) -> None:
    build, shapes, reason = REFUSED[name]
    left = dispatch(nets.net(build, *shapes), ["blas"]).left
    assert any(reason in o.why for o in left), left


def test_without_the_library_tvm_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.blas.locate.library", lambda: None)
    mod = nets.net(lambda e, r, x, y: e(op.matmul(x, y)), (4, 6), (6, 5))
    with pytest.warns(UserWarning, match=r"blas is not available: OpenBLAS is not .*pip install"):
        done = dispatch(mod, ["blas"])
    assert not done.taken
