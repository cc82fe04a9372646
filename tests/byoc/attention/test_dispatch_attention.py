"""Products around a softmax become attention if they are certified together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.testing.strip import strip_module
from opinfo.transform import DispatchAttention

from ...common.run import run

OP = relax.op
N, M = (tirx.Var(name, "int64") for name in "nm")
SIZES = {"n": 3, "m": 7}
BATCH, HEADS, SIZE = 2, 3, 8
Build = Callable[..., Any]


def module(
    build: Build, rows: Any, columns: Any, mask: bool = False, *,
    groups: int = HEADS, dtype: str = "float32",
) -> Any:  # fmt: skip
    """A lowered module without names over q, k, v and perhaps a mask."""
    shapes = [(BATCH, rows, HEADS, SIZE), *[(BATCH, columns, groups, SIZE)] * 2]
    shapes += [(BATCH, 1, rows, columns)] * mask
    params = [relax.Var(f"p{k}", relax.TensorType(s, dtype)) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(build(builder.emit, *params)))
        builder.emit_func_output(out)
    return strip_module(relax.transform.LegalizeOps()(builder.get()))


def by_head(e: Any, x: Any) -> Any:
    return e(OP.permute_dims(x, [0, 2, 1, 3]))


def attended(
    e: Any, q: Any, k: Any, v: Any, mask: Any = None, *, scale: Any = None, axis: int = -1,
    values: Any = by_head, keys: Any = by_head, scores: Any = None,
) -> Any:  # fmt: skip
    """Attention operator by operator."""
    s = e(OP.matmul(by_head(e, q), e(OP.permute_dims(keys(e, k), [0, 1, 3, 2]))))
    s = scale(e, s) if scale is not None else e(OP.multiply(s, relax.const(0.25, str(s.ty.dtype))))
    s = e(OP.add(s, mask)) if mask is not None else s
    s = scores(e, s) if scores is not None else s
    p = e(OP.nn.softmax(s, axis))
    p = p if p.ty.dtype == q.ty.dtype else e(OP.astype(p, str(q.ty.dtype)))
    out = e(OP.matmul(p, values(e, v)))
    return OP.permute_dims(out, [0, 2, 1, 3])


def divided(e: Any, s: Any) -> Any:
    return e(OP.divide(s, relax.const(np.sqrt(SIZE), "float32")))


def whole(e: Any, *args: Any) -> Any:
    """One PrimFunc, as `LegalizeOps` lowers attention."""
    return OP.nn.attention(*args)


def operators(mod: Any) -> list[str]:
    found: list[str] = []

    def one(expr: Any) -> None:
        if isinstance(expr, tvm.ir.Call) and isinstance(expr.op, tvm.ir.Op):
            found.append(str(expr.op.name))

    relax.analysis.post_order_visit(mod["main"], one)
    return found


def results(mod: Any, *, mask: bool) -> Any:
    rng = np.random.default_rng(0)
    values = []
    for param in mod["main"].params:
        shape = [SIZES[e.name] if isinstance(e, tirx.Var) else int(e) for e in param.ty.shape]
        values.append(rng.standard_normal(shape).astype(str(param.ty.dtype)))
    if mask:
        values[-1] = np.where(values[-1] > 0, 0, -1e9).astype("float32")
    (out,) = run(mod, values)
    return out


@pytest.mark.parametrize(
    ("build", "rows", "columns", "mask"),
    [
        (attended, 4, 6, False),
        (attended, N, N, True),
        (attended, 1, M, True),
        (lambda e, *x: attended(e, *x, scale=divided), N, M, False),
        (whole, 4, M, False),
    ],
)
def test_attention_is_one_operator(build: Build, rows: Any, columns: Any, mask: bool) -> None:
    before = module(build, rows, columns, mask)
    after = DispatchAttention()(before)
    relax.analysis.well_formed(after)
    name = "relax.nn.attention_bias" if mask else "relax.nn.attention"
    assert operators(after) == [name]
    expected, found = results(before, mask=mask), results(after, mask=mask)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _capped(e: Any, s: Any) -> Any:
    scaled = e(OP.multiply(s, relax.const(0.25, "float32")))
    bounded = e(OP.tanh(e(OP.divide(scaled, relax.const(30.0, "float32")))))
    return e(OP.multiply(bounded, relax.const(30.0, "float32")))


def _wide(e: Any, s: Any) -> Any:
    return e(OP.astype(s, "float32"))


def _for_each_head(e: Any, x: Any) -> Any:
    return by_head(e, e(OP.repeat(x, HEADS, axis=2)))


@pytest.mark.parametrize(
    ("changed", "groups", "dtype"),
    [
        ({"scale": _capped}, HEADS, "float32"),
        ({"scores": _wide}, HEADS, "float16"),
        ({"keys": _for_each_head, "values": _for_each_head}, 1, "float32"),
    ],
)
def test_attention_of_language_models_is_one_operator(
    changed: dict[str, Any], groups: int, dtype: str
) -> None:
    before = module(lambda e, *x: attended(e, *x, **changed), N, M, groups=groups, dtype=dtype)
    after = DispatchAttention()(before)
    assert operators(after) == ["relax.nn.grouped_attention"]
    expected, found = results(before, mask=False), results(after, mask=False)
    near = 1e-6 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(found, expected, rtol=10 * near, atol=near)


def test_what_moves_heads_before_stays() -> None:
    """Heads are split and merged by reshapes outside of attention."""

    def build(e: Any, q: Any, k: Any, v: Any) -> Any:
        flat = [e(OP.reshape(x, (BATCH, 4, HEADS * SIZE))) for x in (q, k, v)]
        split = [e(OP.reshape(x, (BATCH, 4, HEADS, SIZE))) for x in flat]
        return OP.reshape(e(attended(e, *split)), (BATCH, 4, HEADS * SIZE))

    before = module(build, 4, 4)
    after = DispatchAttention()(before)
    assert operators(after).count("relax.nn.attention") == 1
    expected, found = results(before, mask=False), results(after, mask=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def _reversed(e: Any, x: Any) -> Any:
    return by_head(e, e(OP.flip(x, 1)))


def _other_heads(e: Any, x: Any) -> Any:
    return by_head(e, e(OP.flip(x, 2)))


def _squared(e: Any, s: Any) -> Any:
    return e(OP.multiply(s, s))


def _shifted(e: Any, s: Any) -> Any:
    return e(OP.add(s, e(OP.nn.relu(s))))


@pytest.mark.parametrize(
    "changed",
    [
        {"axis": -2},
        {"axis": 1},
        {"scores": _squared},
        {"scores": _shifted},
        {"values": lambda e, x: e(OP.exp(by_head(e, x))), "scores": _squared},
        {"scale": lambda e, s: e(OP.subtract(relax.const(1.0, "float32"), s))},
        {"scale": lambda e, s: e(OP.divide(relax.const(1.0, "float32"), s))},
        {"scale": lambda e, s: e(OP.minimum(s, relax.const(2.0, "float32")))},
        {"scale": lambda e, s: e(OP.tanh(s))},
    ],
)
def test_decoys_stay(changed: dict[str, Any]) -> None:
    mod = module(lambda e, *x: attended(e, *x, **changed), 5, 5)
    tvm.ir.assert_structural_equal(DispatchAttention()(mod), mod)


@pytest.mark.parametrize("changed", [{"values": _reversed}, {"keys": _other_heads}])
def test_what_is_computed_before_stays_before(changed: dict[str, Any]) -> None:
    before = module(lambda e, *x: attended(e, *x, **changed), 5, 5)
    after = DispatchAttention()(before)
    assert sorted(operators(after)) == ["relax.call_tir", "relax.nn.attention"]
    expected, found = results(before, mask=False), results(after, mask=False)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_weights_that_are_read_elsewhere_stay() -> None:
    def build(e: Any, q: Any, k: Any, v: Any) -> Any:
        s = e(OP.matmul(by_head(e, q), e(OP.permute_dims(by_head(e, k), [0, 1, 3, 2]))))
        p = e(OP.nn.softmax(s))
        return relax.Tuple([p, e(OP.matmul(p, by_head(e, v)))])

    mod = module(build, 4, 4)
    tvm.ir.assert_structural_equal(DispatchAttention()(mod), mod)


def test_only_modules_are_accepted() -> None:
    from opinfo.byoc.fusion.dispatch_attention import dispatch_attention

    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got int"):
        dispatch_attention(3)
