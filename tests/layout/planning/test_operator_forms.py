"""Layouts in which a PrimFunc is still its operator: what they are, and that results are equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.analysis import OpInfo, op_info
from opinfo.layout import Layout, plan_layout
from opinfo.layout.access.flow import flow
from opinfo.layout.alternatives.operator_forms import Elementwise, ProductForm, operator_form
from opinfo.layout.model.digit import Digit
from opinfo.layout.rewrite.rewrite import Rewritten, rewrite
from opinfo.transform import RaiseOps

from ...common.prim_funcs import lowered
from .. import nets, oracle
from .test_plan import check_same, names

NHWC = {"nn.conv2d": ["NHWC", "OHWI"]}
#: (batch, rows, 3 * 4) with the 3 before the rows, and the same with the rows innermost.
HEADS = Layout(((Digit(0),), (Digit(2, 4),), (Digit(1),), (Digit(2, 1, 4),)))
HEADS_T = Layout(((Digit(0),), (Digit(2, 4),), (Digit(2, 1, 4),), (Digit(1),)))
TURNED = Layout.permuted((0, 2, 1))


def forms(func: Any, out: Layout, free: tuple[int, ...] = ()) -> list[list[Layout]]:
    """The layouts of each parameter for that of the result."""
    blocks = flow(func)
    form = operator_form(blocks, [tuple(map(int, p.ty.shape)) for p in func.params])
    assert form is not None
    layouts = form.of_result(out, form.orders(())[0], free)
    return [[x[b] for b in blocks.params if b is not None] for x in layouts]


@pytest.mark.part
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("out", [Layout.identity(3), HEADS, HEADS_T, TURNED], ids=str)
@pytest.mark.parametrize(
    ("op", "second"), [(relax.op.matmul, (12, 12)), (relax.op.add, (12,)), (relax.op.add, (5, 12))]
)
def test_an_operator_in_its_forms_is_the_same_operator(
    op: Any, second: tuple[int, ...], out: Layout, batch: int
) -> None:
    func = lowered(op, (batch, 5, 12), second)
    (layouts,) = forms(func, out, free=(1,))
    new = rewrite(func, layouts)
    assert isinstance(new, Rewritten)
    info, before = op_info(new.func), op_info(func)
    assert isinstance(info, OpInfo)
    assert isinstance(before, OpInfo)
    assert info.name == before.name
    assert not info.relaid
    oracle.check(func, new.func, layouts)


def test_a_loop_of_one_operand_is_a_batch_dimension_of_extent_1_in_the_other() -> None:
    func = lowered(relax.op.matmul, (2, 5, 12), (12, 12))
    ((x, w, out),) = forms(func, HEADS, free=(1,))
    assert x.physical((2, 5, 12)) == (2, 1, 5, 12)
    assert w.physical((12, 12)) == (3, 12, 4)
    assert out.physical((2, 5, 12)) == (2, 3, 5, 4)


def test_a_bias_is_broadcast_over_the_rows() -> None:
    func = lowered(relax.op.add, (2, 5, 12), (12,))
    ((x, bias, _),) = forms(func, HEADS)
    assert x == HEADS
    assert bias.physical((12,)) == (3, 1, 4)


def test_rows_of_either_operand_may_come_last() -> None:
    func = lowered(relax.op.matmul, (2, 3, 5, 4), (2, 3, 4, 6))
    turned = Layout.permuted((0, 1, 3, 2))
    ((q, k, _),) = forms(func, turned)
    assert (q, k) == (turned, turned)


def test_a_summed_axis_that_is_split_is_not_a_matmul() -> None:
    blocks = flow(lowered(relax.op.matmul, (2, 5, 12), (12, 12)))
    form = operator_form(blocks, [(2, 5, 12), (12, 12), (2, 5, 12)])
    assert isinstance(form, ProductForm)
    assert form.matmul
    assert not list(form.results(0, HEADS))
    assert list(form.results(0, TURNED)) == [TURNED]


def test_rows_and_columns_of_one_operand_are_not_a_matmul() -> None:
    func = lowered(relax.op.matmul, (5, 12), (12, 6))
    assert not forms(func, Layout(((Digit(0), Digit(1)),)))
    split = Layout(((Digit(0),), (Digit(1, 2),), (Digit(1, 1, 2),)))
    assert not forms(func, split)


NEITHER = {
    "a reduction": lowered(lambda x: relax.op.sum(x, [1]), (4, 5)),
    "a window": lowered(lambda x: relax.op.nn.max_pool2d(x, (2, 2)), (1, 3, 4, 4)),
    "an offset": lowered(lambda x: relax.op.strided_slice(x, [0], [1], [3]), (4, 5)),
    "a diagonal": lowered(lambda x: relax.op.einsum((x,), "ii->i"), (4, 4)),
    "an axis by number": lowered(
        lambda x, a: relax.op.nn.prelu(x, a, axis=1), (1, 3, 4, 4), (3,)
    ),
}  # fmt: skip


@pytest.mark.parametrize("func", NEITHER.values(), ids=NEITHER)
def test_other_operators_have_no_form(func: Any) -> None:
    assert operator_form(flow(func), [tuple(map(int, p.ty.shape)) for p in func.params]) is None


def test_a_symbolic_axis_carries_no_extent_of_1() -> None:
    n = tvm.tirx.Var("n", "int64")
    func = lowered(relax.op.add, (n, 5), (5,))
    form = operator_form(flow(func), [(n, 5), (5,), (n, 5)])
    assert isinstance(form, Elementwise)
    (layouts,) = form.of_result(Layout.permuted((1, 0)), (), ())
    assert layouts[1].physical((5,)) == (5, 1)
    first = lowered(relax.op.add, (5, n), (n,))
    form = operator_form(flow(first), [(5, n), (n,), (5, n)])
    assert isinstance(form, Elementwise)
    assert not list(form.of_result(Layout.permuted((1, 0)), (), ()))


# ---------------------------------------------------------------------------- plans


def transformer(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Attention of three heads with biases, its output projected and added to the input."""
    op, b = relax.op, int(x.ty.shape[0])

    def linear(y: Any) -> Any:
        y = emit(op.matmul(y, nets.const(rng, 12, 12)))
        return emit(op.add(y, nets.const(rng, 12)))

    def heads() -> Any:
        return emit(op.permute_dims(emit(op.reshape(linear(x), (b, 5, 3, 4))), [0, 2, 1, 3]))

    q, k, v = heads(), heads(), heads()
    scores = emit(op.matmul(q, emit(op.permute_dims(k, [0, 1, 3, 2]))))
    y = emit(op.matmul(emit(op.nn.softmax(scores, axis=-1)), v))
    y = emit(op.reshape(emit(op.permute_dims(y, [0, 2, 1, 3])), (b, 5, 12)))
    return emit(op.add(x, linear(y)))


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_of_attention_are_batch_dimensions(batch: int) -> None:
    """Of five transposes in the model, only the transposed key and the context stay."""
    shape = (batch, 5, 12)
    mod = nets.net(transformer, shape)
    planned = plan_layout(mod, mode="graph")
    assert planned.report.status == "optimal"
    assert planned.report.after.number <= 2
    raised = RaiseOps()(planned.module)
    assert "relax.call_tir" not in names(raised)
    before = [n for n in names(RaiseOps()(mod)) if n not in MOVES]
    assert sorted(n for n in names(raised) if n not in MOVES) == sorted(before)
    check_same(mod, planned.module, shape)


MOVES = ("relax.permute_dims", "relax.reshape", "relax.layout_transform")


def attended(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    """Attention of two heads over pixels, by convolutions of one pixel."""
    op, nn = relax.op, relax.op.nn
    y = emit(nn.conv2d(x, nets.const(rng, 24, 8, 1, 1)))
    y = emit(op.reshape(emit(op.add(y, nets.const(rng, 1, 24, 1, 1))), (1, 2, 12, 16)))
    parts = emit(op.split(y, 3, axis=2))
    q, k, v = (emit(parts[i]) for i in range(3))
    q, v = (emit(op.permute_dims(t, [0, 1, 3, 2])) for t in (q, v))
    y = emit(op.matmul(emit(nn.softmax(emit(op.matmul(q, k)))), v))
    y = emit(op.reshape(emit(op.permute_dims(y, [0, 1, 3, 2])), (1, 8, 4, 4)))
    y = emit(nn.conv2d(y, nets.const(rng, 8, 8, 1, 1)))
    return emit(op.add(x, y))


def test_a_convolution_of_one_pixel_is_a_product_where_that_saves_conversions() -> None:
    shape = (1, 8, 4, 4)
    mod = nets.net(attended, shape)
    planned = plan_layout(mod, NHWC, mode="graph")
    assert planned.report.after.number <= 4  # input, key, context, output
    raised = names(RaiseOps()(planned.module))
    assert raised.count("relax.matmul") == 3
    assert raised.count("relax.nn.conv2d") == 1
    check_same(mod, planned.module, shape)
    alone = plan_layout(nets.net(nets.scaled, (1, 3, 8, 8)), NHWC, mode="graph").module
    assert names(RaiseOps()(alone)).count("relax.nn.conv2d") == 2


def upsampled(emit: Any, rng: np.random.Generator, x: Any) -> Any:
    nn = relax.op.nn
    y = emit(nn.conv2d(x, nets.const(rng, 4, 3, 3, 3), padding=1))
    y = emit(nn.conv2d_transpose(y, nets.const(rng, 4, 4, 3, 3), strides=2, padding=1))
    return emit(nn.conv2d(y, nets.const(rng, 3, 4, 3, 3), padding=1))


def test_a_transposed_convolution_follows_its_neighbours() -> None:
    shape = (1, 3, 6, 6)
    mod = nets.net(upsampled, shape)
    planned = plan_layout(mod, NHWC, mode="graph")
    assert planned.report.after.number == 2
    funcs = planned.module.functions.values()
    infos = [op_info(f) for f in funcs if isinstance(f, tvm.tirx.PrimFunc)]
    (up,) = (i for i in infos if isinstance(i, OpInfo) and i.name == "relax.nn.conv2d_transpose")
    assert up.attrs["data_layout"] == "NHWC"
    check_same(mod, planned.module, shape)


def test_packed_requests_are_planned_or_said_to_be_unmet() -> None:
    def build(emit: Any, rng: np.random.Generator, x: Any) -> Any:
        y = emit(relax.op.nn.conv2d(x, nets.const(rng, 8, 3, 3, 3), padding=1))
        y = emit(relax.op.nn.relu(y))
        return emit(relax.op.nn.conv2d(y, nets.const(rng, 8, 8, 3, 3), padding=1))

    shape = (1, 3, 6, 6)
    mod = nets.net(build, shape)
    planned = plan_layout(mod, {"conv2d": ["NCHW4c", "OIHW4i4o"]}, mode="graph")
    met = [op.met for op in planned.report.ops if op.op.startswith("conv2d")]
    assert met == [False, True]  # no attribute says that three channels are padded to four
    assert "1 request not met" in planned.report.summary()
    check_same(mod, planned.module, shape)


def test_plans_of_equal_bytes_go_to_fewer_conversions() -> None:
    """Both halves of a value need another order: one conversion before they part."""

    def build(emit: Any, rng: np.random.Generator, x: Any) -> Any:
        y = emit(relax.op.nn.softmax(x, axis=1))
        parts = emit(relax.op.split(y, 2, axis=0))
        outs = [emit(relax.op.nn.conv2d(emit(parts[i]), nets.const(rng, 4, 4, 3, 3), padding=1))
                for i in range(2)]  # fmt: skip
        return emit(relax.Tuple([emit(relax.op.sum(o)) for o in outs]))

    shape = (2, 4, 4, 4)
    mod = nets.net(build, shape)
    planned = plan_layout(mod, NHWC, mode="graph")
    assert len(planned.report.conversions) == 1
    check_same(mod, planned.module, shape)


def test_a_plan_without_proof_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opinfo.layout.planner.ROUNDS", 0)
    mod = nets.net(nets.residual, (1, 3, 8, 8))
    planned = plan_layout(mod, NHWC, mode="graph")
    assert planned.report.status != "optimal"
    assert planned.report.unmet
