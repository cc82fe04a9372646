"""Regions of NVIDIA's libraries with sizes that are known at run time: one library, many shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.byoc.backends.common.moved_axes import Strided
from opinfo.byoc.compile import CompiledModule, compile_module
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.patterns.extents.symbolic_extents import (
    extent_of,
    factors,
    quotient,
    with_quotients,
)
from opinfo.byoc.prepare.prepare import prepare

from ...common.kept_objects import keep_objects
from ..attention.nvidia_attention_cases import attended, heads, merged
from .test_nvidia import on_stub

nn, op = relax.op.nn, relax.op
pytestmark = pytest.mark.usefixtures("cudnn_frontend")
Build = Callable[..., Any]
B, S, T = (tirx.Var(name, "int64") for name in "bst")
HEADS, HEAD = 3, 16
WIDTH = HEADS * HEAD


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        keep_objects(patch)
        patch.setenv("OPINFO_CACHE", str(folder))
        yield folder


def _attention(emit: Build, q: Any, k: Any, v: Any, batch: Any, rows: Any, keys: Any) -> Any:
    """Tensors of (rows, features) as torch exports it: batch and heads as one axis, in float32."""

    def split(x: Any, count: Any) -> Any:
        parts = emit(op.reshape(x, (batch, count, HEADS, HEAD)))
        return emit(op.astype(emit(op.permute_dims(parts, [0, 2, 1, 3])), "float32"))

    q, k, v = split(q, rows), split(k, keys), split(v, keys)
    root = relax.const(0.5, "float32")
    q = emit(op.multiply(q, root))
    k = emit(op.multiply(emit(op.permute_dims(k, [0, 1, 3, 2])), root))
    scores = emit(op.matmul(emit(op.reshape(q, (batch * HEADS, rows, HEAD))),
                            emit(op.reshape(k, (batch * HEADS, HEAD, keys)))))  # fmt: skip
    weights = emit(nn.softmax(emit(op.reshape(scores, (batch, HEADS, rows, keys)))))
    weights = emit(op.reshape(weights, (batch * HEADS, rows, keys)))
    out = emit(op.matmul(weights, emit(op.reshape(v, (batch * HEADS, keys, HEAD)))))
    out = emit(op.astype(emit(op.reshape(out, (batch, HEADS, rows, HEAD))), "float16"))
    out = emit(op.permute_dims(out, [0, 2, 1, 3]))
    return emit(op.reshape(out, (batch, rows, WIDTH)))


def _one_tensor(emit: Build, x: Any) -> Any:
    """Queries, keys and values side by side in one tensor, batch and rows as one axis."""
    rows = emit(op.reshape(x, (B * S, 3 * WIDTH)))
    q, k, v = (emit(op.strided_slice(rows, [1], [n * WIDTH], [(n + 1) * WIDTH])) for n in range(3))
    return _attention(emit, q, k, v, B, S, S)


def _three(emit: Build, q: Any, k: Any, v: Any) -> Any:
    return _attention(emit, q, k, v, B, S, T)


def _by_head(emit: Build, q: Any, k: Any, v: Any) -> Any:
    """Heads before positions, as a cache has them: their steps depend on the positions."""
    scores = emit(op.multiply(emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2])))),
                              relax.const(0.25, "float16")))  # fmt: skip
    return emit(op.matmul(emit(nn.softmax(scores)), v))


#: The graph, the shapes of its inputs, and its result in float64.
GRAPHS: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], Callable[..., Any]]] = {
    "one tensor": (_one_tensor, ((B, S, 3 * WIDTH),), lambda x: merged(attended(
        *(heads(x[..., n * WIDTH:(n + 1) * WIDTH], HEADS) for n in range(3)), scale=0.25))),
    "other keys": (_three, ((B, S, WIDTH), (B, T, WIDTH), (B, T, WIDTH)), lambda *xs: merged(
        attended(*(heads(x, HEADS) for x in xs), scale=0.25))),
}  # fmt: skip


def module(build: Build, shapes: tuple[tuple[Any, ...], ...]) -> Any:
    xs = [relax.Var(f"x{k}", relax.TensorType(s, "float16")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", xs):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, *xs))
        builder.emit_func_output(out)
    return builder.get()


@functools.cache
def compiled() -> CompiledModule:
    """One library, a function for each graph: most of what g++ compiles is the same for all."""
    graphs = {name: (build, shapes) for name, (build, shapes, _) in GRAPHS.items()}
    graphs["by head"] = (_by_head, ((B, HEADS, S, HEAD),) * 3)
    functions = {symbol(name): module(*graph)["main"].with_attr("global_symbol", symbol(name))
                 for name, graph in graphs.items()}  # fmt: skip
    return compile_module(tvm.IRModule(functions), [on_stub("cudnn")], plan=False)


def symbol(name: str) -> str:
    return name.replace(" ", "_")


def test_each_graph_is_one_region() -> None:
    taken = sorted(t.pattern for t in compiled().dispatched.taken)
    assert taken == ["attention", "attention_float32", "attention_float32"]


@pytest.mark.parametrize("name", GRAPHS)
def test_one_library_is_right_for_every_shape(name: str) -> None:
    _, shapes, reference = GRAPHS[name]
    main = compiled().machine()[symbol(name)]
    rng = np.random.default_rng(1)
    for sizes in ({B: 2, S: 7, T: 5}, {B: 1, S: 4, T: 9}, {B: 3, S: 1, T: 1}, {B: 2, S: 7, T: 5}):
        given = [rng.standard_normal([sizes.get(e, e) for e in shape]).astype("float16")
                 for shape in shapes]  # fmt: skip
        found = main(*map(tvm.runtime.tensor, given)).numpy()
        expected = reference(*(a.astype("float64") for a in given))
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-3)


def test_requests_of_other_shapes_share_plans_of_attention(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    main = compiled().machine()["one_tensor"]

    def call(batch: int, positions: int) -> None:
        main(tvm.runtime.tensor(np.ones((batch, positions, 3 * WIDTH), "float16")))

    call(2, 7)
    monkeypatch.setenv("OPINFO_STUB_TELLS_PLANS", "1")
    for batch, positions in ((1, 3), (2, 8), (5, 130)):
        call(batch, positions)
    assert "stub: a plan of attention" not in capfd.readouterr().err
    call(1, 513)  # more positions than plans are made for before
    assert capfd.readouterr().err.count("stub: a plan of attention") == 1


def test_heads_before_positions_have_plans_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No other shape could share the plans that limit them."""
    main = compiled().machine()["by_head"]
    monkeypatch.setenv("OPINFO_STUB_TELLS_PLANS", "1")
    for positions in (7, 9):
        given = [np.random.default_rng(k).standard_normal((2, HEADS, positions, HEAD))
                 .astype("float16") for k in range(3)]  # fmt: skip
        found = main(*map(tvm.runtime.tensor, given)).numpy()
        expected = attended(*(a.astype("float64") for a in given), scale=0.25)
        np.testing.assert_allclose(found, expected, rtol=0, atol=4e-3)
        assert capfd.readouterr().err.count("stub: a plan of attention") == 1


def test_sizes_that_no_tensor_tells_are_refused() -> None:
    """Batch and rows are one axis of all tensors: no extent tells one of them."""

    def build(emit: Build, q: Any, k: Any, v: Any, _: Any) -> Any:
        out = _attention(emit, q, k, v, B, S, S)
        return emit(op.reshape(out, (B * S, WIDTH)))

    shapes = (*[(B * S, WIDTH)] * 3, (B, S))
    done = dispatch(prepare(module(build, shapes), [on_stub("cudnn")]), [on_stub("cudnn")])
    taken = [t for t in done.taken if t.pattern.startswith("attention")]
    for t in taken:  # a region that ends before the reshape has batch and rows as axes
        assert t.pattern == "attention_float32"


@pytest.mark.parametrize(("mask", "why"), [
    ("constant", "a mask is constant, and there are sizes that are known at run time"),
    ("input", "the mask may be infinite"),
    ("infinite", "the mask may be infinite"),
])  # fmt: skip
def test_masks_that_may_hide_the_only_key_are_refused(mask: str, why: str) -> None:
    """Where T is 1, the values are copied: right only if the mask is finite."""

    def build(emit: Build, q: Any, k: Any, v: Any, given: Any) -> Any:
        scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
        hidden, term = relax.const(np.full((1, 1), -np.inf, "float16")), given
        if mask == "constant":
            term = hidden
        elif mask == "infinite":
            seen = emit(op.greater(given, relax.const(0.0, "float16")))
            term = emit(op.where(seen, relax.const(0.0, "float16"), hidden))
        scores = emit(op.add(scores, term))
        return emit(op.matmul(emit(nn.softmax(scores)), v))

    shapes = ((B, HEADS, S, HEAD), *[(B, HEADS, T, HEAD)] * 2, (B, 1, S, T))
    done = dispatch(prepare(module(build, shapes), [on_stub("cudnn")]), [on_stub("cudnn")])
    assert not [t for t in done.taken if t.pattern.startswith("attention")]
    assert any(why in o.why for o in done.left)


# --- Extents


def test_quotients_are_exact_for_all_sizes() -> None:
    n, m = B * 12 * S, B * (S * T + 1)
    assert quotient(extent_of(n), extent_of(S)) == extent_of(B * 12)
    assert quotient(extent_of(n), extent_of(T)) is None
    assert quotient(extent_of(n), 5) is None
    assert quotient(extent_of(m), extent_of(S * T + 1)) == extent_of(B)
    assert extent_of(B * S * T + B) == extent_of(m)
    assert quotient(extent_of(B * (S // 2)), extent_of(S // 2)) == extent_of(B)
    assert quotient(extent_of(B * (S // 2)), extent_of(S)) is None
    assert (quotient(6, 4), quotient(6, 3), quotient(8, extent_of(B))) == (None, 2, None)


def test_extents_are_products_of_known_ones_and_their_quotients() -> None:
    known = with_quotients([(extent_of(B * S), "x"), (extent_of(S), "s"), (extent_of(4 * T), "t")])
    assert factors(extent_of(S * 48), known) == "s * 48"
    assert factors(extent_of(B), known) == "(x / s)"
    assert factors(extent_of(T), known) == "(t / 4)"
    assert factors(extent_of(B * B), with_quotients([(extent_of(B * S), "x")])) is None


@pytest.mark.parametrize("sizes", [(2, 3), (1, 5), (4, 1)])
def test_symbolic_views_are_those_of_numbers(sizes: tuple[int, int]) -> None:
    def moved(batch: Any, rows: Any) -> Strided:
        whole = Strided.plain((batch * rows, 96)).reshaped((batch, rows, 2, 3, 16))
        assert whole is not None
        turned = whole.permuted((2, 0, 3, 1, 4)).sliced(0, 1, 1)
        assert turned is not None
        out = turned.reshaped((batch * 3, rows, 16))
        assert out is not None
        return out

    symbolic, numbers = moved(B, S), moved(*sizes)
    values = dict(zip((B, S), sizes, strict=True))

    def number(extent: Any) -> int:
        if isinstance(extent, int):
            return extent
        return sum(c * int(np.prod([values[s.expr] for s in m])) for m, c in extent.terms)

    assert [number(e) for e in symbolic.shape] == list(numbers.shape)
    assert number(symbolic.offset) == numbers.offset

    def places(view: Strided) -> Any:
        """The index of every element, in order."""
        out = np.zeros(1, "int64")
        for extent, step in (digit for axis in view.axes for digit in axis):
            out = (out[:, None] + np.arange(number(extent)) * number(step)).reshape(-1)
        return out

    np.testing.assert_array_equal(places(symbolic), places(numbers))
