"""OpenBLAS: what it computes is what TVM computes, with extents that are known at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis.composites import transposed_matmul
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.backends.blas.locate import library
from opinfo.byoc.backends.blas.patterns import PATTERNS, PRODUCT
from opinfo.byoc.backends.common.epilogue import CALLED
from opinfo.byoc.compile import compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.patterns.pattern import Pattern, PatternStep
from opinfo.testing import Case, Example, backend_cases

from ...common.run import run
from ...layout import nets

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")
Shape = tuple[Any, ...]


@dataclass(frozen=True)
class _Case:
    """``build(emit, const, *inputs)``, and the operators of the region that it is."""

    shapes: tuple[Shape, ...]
    build: Callable[..., Any]
    ops: str = "matmul"


def _plain(e: Any, c: Any, x: Any, y: Any) -> Any:
    return e(op.matmul(x, y))


def _chain(*after: Callable[[Any, Any], Any], ops: str, shape: Shape = (4, 6)) -> _Case:
    """A product with a constant matrix, and functions of it."""

    def build(e: Any, c: Any, x: Any) -> Any:
        y = e(op.matmul(x, c(6, 5)))
        for f in after:
            y = e(f(y, c))
        return y

    return _Case((shape,), build, f"matmul {ops}")


def _permuted(left: list[int] | None, right: list[int] | None) -> Callable[..., Any]:
    def build(e: Any, c: Any, x: Any, y: Any) -> Any:
        x = x if left is None else e(op.permute_dims(x, left))
        y = y if right is None else e(op.permute_dims(y, right))
        return e(op.matmul(x, y))

    return build


def _stored(*transposed: bool) -> Callable[..., Any]:
    return lambda e, c, x, y: e(transposed_matmul(x, y, transposed=transposed))


def _residual(e: Any, c: Any, x: Any, y: Any) -> Any:
    z = e(op.matmul(x, c(6, 5)))
    return e(nn.relu(e(op.subtract(y, e(op.add(z, c(5)))))))


def _each(name: str, *args: Any) -> _Case:
    f = getattr(op, name, None) or getattr(nn, name)
    return _chain(lambda y, c: f(y, *args), ops=name)


CASES: dict[str, _Case] = {
    "plain": _Case(((4, 6), (6, 5)), _plain),
    "one row": _Case(((1, 6), (6, 5)), _plain),
    "one column": _Case(((4, 6), (6, 1)), _plain),
    "one term": _Case(((4, 1), (1, 5)), _plain),
    "of a batch": _Case(((3, 4, 6), (3, 6, 5)), _plain),
    "broadcast": _Case(((2, 1, 4, 6), (3, 6, 5)), _plain),
    "the matrix first": _Case(((4, 6), (3, 6, 5)), _plain),
    "extents at run time": _Case((("n", 4, "m"), ("n", "m", 5)), _plain),
    "rows at run time": _Case((("n", "m", 6), (6, 5)), _plain),
    "second transposed": _Case(((4, 6), (5, 6)), _permuted(None, [1, 0]), "permute_dims matmul"),
    "first transposed": _Case(((6, 4), (6, 5)), _permuted([1, 0], None), "permute_dims matmul"),
    "both transposed": _Case(((6, 4), (5, 6)), _permuted([1, 0], [1, 0]), "permute_dims matmul"),
    "keys of heads": _Case(((2, 3, "n", 4), (2, "m", 3, 4)), _permuted(None, [0, 2, 3, 1]),
                          "permute_dims matmul"),
    "values of heads": _Case(((2, 3, 5, "m"), (2, "m", 3, 4)), _permuted(None, [0, 2, 1, 3]),
                            "permute_dims matmul"),
    "queries of heads": _Case(((2, "n", 3, 4), (2, 3, 4, 5)), _permuted([0, 2, 1, 3], None),
                             "permute_dims matmul"),
    "one head of one": _Case(((2, 1, 3, 4), (2, 3, 4, 5)), _permuted([0, 2, 1, 3], None),
                            "permute_dims matmul"),
    "stored transposed": _Case((("n", 3, 6), (5, 6)), _stored(False, True), "transposed_matmul"),
    "the first stored transposed": _Case(((2, 6, 4), (6, 5)), _stored(True, False),
                                         "transposed_matmul"),
    "both stored transposed": _Case(((6, 4), (5, 6)), _stored(True, True), "transposed_matmul"),
    "scores of heads": _Case(((2, 3, "n", 4), (2, 3, "m", 4)), _stored(False, True),
                             "transposed_matmul"),
    "bias, relu": _chain(lambda y, c: op.add(y, c(5)), lambda y, c: nn.relu(y), ops="add relu"),
    "dense": _chain(lambda y, c: op.add(c(5), y), lambda y, c: nn.relu6(y), ops="add relu6",
                    shape=("n", 3, 6)),
    "rows, columns, all": _chain(
        lambda y, c: op.multiply(y, c(3, 1)), lambda y, c: op.divide(c(2, 1, 5), y),
        lambda y, c: op.maximum(y, c(1)), lambda y, c: op.minimum(c(2, 3, 5), y),
        ops="multiply divide maximum minimum", shape=(2, 3, 6)),
    "literals": _chain(
        lambda y, c: op.subtract(_literal(y, 1.0), y),
        lambda y, c: op.multiply(y, _literal(y, -1.5)), lambda y, c: op.divide(y, _literal(y, 3.0)),
        ops="subtract multiply divide"),
    "with itself": _chain(lambda y, c: op.multiply(y, y), ops="multiply"),
    "residual": _Case(((4, 6), (4, 5)), _residual, "matmul add subtract relu"),
    "bounded": _chain(lambda y, c: op.clip(y, -0.25, 0.5), ops="clip"),
    "leaky": _chain(lambda y, c: nn.leakyrelu(y, 0.1), ops="leakyrelu"),
    **{f: _each(f) for f in ("abs", "square", "negative")},
}  # fmt: skip


def _literal(y: Any, value: float) -> Any:
    return relax.const(value, str(y.ty.dtype))


#: What is also tried in float64.
DOUBLE = ("one row", "keys of heads", "dense", "literals", "bounded")
REFUSED = [
    Example("vectors", ((6,), (6, 5)), _plain, refused="rank 1 and 2, expected 2 to 8"),
    Example("float16", ((4, 6), (6, 5)), _plain, dtypes=("float16",),
            refused="the dtype is float16, expected float32 or float64"),
    Example("batch goes inside", ((3, 4, 6), (4, 5)), _permuted([2, 0, 1], None), "matmul",
            refused="axes is [2, 0, 1], the last axis must stay among"),
    Example("broadcast by what follows", ((4, 6),),
            lambda e, c, x: e(op.add(e(op.matmul(x, c(6, 5))), c(2, 4, 5))), "matmul",
            refused="relax.add broadcasts the value that it follows"),
]  # fmt: skip
EXAMPLES = [
    *(Example(name, c.shapes, c.build, c.ops,
              dtypes=("float32", "float64") if name in DOUBLE else ("float32",))
      for name, c in CASES.items()),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", backend_cases(find("blas"), [*EXAMPLES, *REFUSED], plan=False), ids=str
)
def test_every_case_of_the_kit_passes(case: Case) -> None:
    assert find("blas").available() is None
    case.check()


#: The code of functions is that of other backends too.
ANYTHING = replace(find("blas"), patterns=(
    Pattern("matmul", PRODUCT, PatternStep(frozenset(CALLED))),))  # fmt: skip
FUNCTIONS = ("sigmoid", "silu", "tanh", "exp", "gelu", "gelu_tanh", "softplus")
FOLLOWED = [Example(name, c.shapes, c.build, c.ops, dtypes=("float32", "float64"))
            for name in FUNCTIONS for c in [_each(name)]]  # fmt: skip


@pytest.mark.parametrize("case", [
    c for c in backend_cases(ANYTHING, FOLLOWED, plan=False) if str(c).startswith("takes ")
], ids=str)  # fmt: skip
def test_functions_are_those_of_relax(case: Case) -> None:
    case.check()


def test_attention_is_taken_with_its_permutations() -> None:
    assert library() is not None and find("blas").patterns is PATTERNS
    taken = dispatch(nets.net(nets.attention, (2, 5, 8)), ["blas"]).taken
    assert sum(t.ops.count("relax.matmul") for t in taken) == 5
    assert sum(t.pattern == "permuted" for t in taken) == 2


@pytest.mark.parametrize("name", CALLED)
def test_functions_that_call_the_c_library_stay_outside(name: str) -> None:
    last = name.rpartition(".")[2]
    function = getattr(op, last, None) or getattr(nn, last)
    mod = nets.net(lambda e, r, x: e(function(e(op.matmul(x, nets.const(r, 6, 5))))), (4, 6))
    (region,) = dispatch(mod, ["blas"]).taken
    assert region.ops == ("relax.matmul",)


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


def test_without_the_library_tvm_compiles_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.byoc.backends.blas.locate.library", lambda: None)
    mod = nets.net(lambda e, r, x, y: e(op.matmul(x, y)), (4, 6), (6, 5))
    with pytest.warns(UserWarning, match=r"blas is not available: OpenBLAS is not .*pip install"):
        done = dispatch(mod, ["blas"])
    assert not done.taken
