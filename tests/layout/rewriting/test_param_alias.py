"""A move that leaves memory unchanged needs no form of its own; any other move does."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo.layout.model.digit import Digit
from opinfo.layout.model.layout import Layout
from opinfo.layout.plan import plan_layout
from opinfo.layout.rewrite.rewrite import Rewriter

from ...common.prim_funcs import lowered

OPS = relax.op
SPLIT = Layout(((Digit(0),), (Digit(2),), (Digit(3),), (Digit(1, 1, 4), Digit(1, 4))))
LAST = Layout(((Digit(0),), (Digit(3),), (Digit(4),), (Digit(2),), (Digit(1),)))


def _aliased_param(op: Any, shape: tuple[int, ...], *layouts: Layout | str) -> int | None:
    func = lowered(op, shape)
    return Rewriter().aliased_param(
        func, [Layout.parse(x) if isinstance(x, str) else x for x in layouts]
    )


def _reshape(x: Any) -> Any:
    return OPS.reshape(x, (1, 2, 4, 3, 3))


@pytest.mark.parametrize(
    ("op", "shape", "layouts"),
    [
        (lambda x: OPS.permute_dims(x, [0, 2, 3, 1]), (1, 8, 3, 3), ("NHWC", "ABCD")),
        (lambda x: OPS.permute_dims(x, [0, 3, 1, 2]), (1, 3, 3, 8), ("ABCD", "NHWC")),
        (lambda x: OPS.permute_dims(x, [1, 0]), (4, 6), (Layout.permuted((1, 0)), "AB")),
        (_reshape, (1, 8, 3, 3), (SPLIT, LAST)),
        (_reshape, (1, 8, 3, 3), ("ABCD", "ABCDE")),
    ],
)
def test_reshapes_that_keep_memory_return_their_parameter(
    op: Any, shape: tuple[int, ...], layouts: tuple[Layout | str, ...]
) -> None:
    assert _aliased_param(op, shape, *layouts) == 0
    both = [Layout.parse(x) if isinstance(x, str) else x for x in layouts]
    assert Rewriter()(lowered(op, shape), both).identity == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("op", "shape", "layouts"),
    [
        (lambda x: OPS.permute_dims(x, [1, 0]), (4, 4), ("AB", "AB")),
        (lambda x: OPS.permute_dims(x, [0, 2, 3, 1]), (1, 8, 3, 3), ("NCHW", "ABCD")),
        (_reshape, (1, 8, 3, 3), ("NHWC", LAST)),
        (OPS.exp, (4, 6), ("AB", "AB")),
        (lambda x: OPS.flip(x, 0), (4, 6), ("AB", "AB")),
        (lambda x: OPS.broadcast_to(x, (4, 6)), (1, 6), ("AB", "AB")),
        (lambda x: OPS.strided_slice(x, [0], [0], [2]), (4, 6), ("AB", "AB")),
        (lambda x: OPS.permute_dims(x, [1, 0]), (6, 4), ("BA4b", "AB")),
        (lambda x: OPS.permute_dims(x, [1, 0]), (6, 4), ("BA4a", "AB4b")),
    ],
)
def test_other_layouts_move_memory(
    op: Any, shape: tuple[int, ...], layouts: tuple[Layout | str, ...]
) -> None:
    assert _aliased_param(op, shape, *layouts) is None


def test_a_result_of_the_function_is_memory_of_its_own() -> None:
    """The first move is read by a convolution, the second one is returned."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 8, 4), "float32"))
    w = relax.Var("w", relax.TensorType((4, 4, 1, 1), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit(OPS.permute_dims(x, [0, 3, 1, 2]))
            z = builder.emit(OPS.nn.conv2d(y, w))
            out = builder.emit_output(OPS.permute_dims(z, [0, 2, 3, 1]))
        builder.emit_func_output(out)
    mod = builder.get()
    mod.update_func(mod.get_global_var("main"), mod["main"].with_attr("num_input", 1))
    planned = plan_layout(
        relax.transform.LegalizeOps()(mod), {"nn.conv2d": ["NHWC", "OHWI"]}
    ).module
    values = [b.value for block in planned["main"].body.blocks for b in block.bindings]
    names = [str(v.op.name) for v in values if isinstance(v, tvm.ir.Call)]
    assert names.count("relax.call_tir") == 2
