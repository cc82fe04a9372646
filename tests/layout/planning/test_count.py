"""What counts as a layout conversion, on modules made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import tirx as T

from opinfo.layout.access.layout_only import is_conversion, mixed_radix
from opinfo.layout.report.count import count
from opinfo.layout.report.plan_report import Conversions

NONE = Conversions(0, 0)
Body = Callable[[Any], Any]


def module(*bodies: Body, shape: tuple[Any, ...] = (1, 4, 6, 8), num_input: int = -1) -> Any:
    """A chain of operators on one input."""
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    attrs = {"num_input": num_input} if num_input >= 0 else {}
    builder = relax.BlockBuilder()
    with builder.function("main", [x], attrs):
        with builder.dataflow():
            value: Any = x
            for body in bodies:
                value = builder.emit(body(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


def nhwc(x: Any) -> Any:
    return relax.op.permute_dims(x, [0, 2, 3, 1])


def packed(x: Any) -> Any:
    return relax.op.layout_transform(x, lambda n, c, h, w: (n, c // 4, h, w, c % 4), 0.0)


def reshape(*shape: int) -> Body:
    return lambda x: relax.op.reshape(x, shape)


SIZE = 4 * 6 * 8 * 4
LOWER = relax.transform.LegalizeOps()
FUSE = tvm.transform.Sequential(
    [LOWER, relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()]
)
FUSE_TIR = tvm.transform.Sequential([FUSE, relax.transform.FuseTIR()])


@pytest.mark.parametrize("lower", [lambda m: m, LOWER, FUSE, FUSE_TIR])
@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([relax.op.nn.relu], NONE),
        ([nhwc], Conversions(1, SIZE)),
        ([nhwc, relax.op.nn.relu], Conversions(1, SIZE)),
        ([relax.op.exp, nhwc, relax.op.exp, nhwc], Conversions(2, 2 * SIZE)),
        ([lambda x: relax.op.permute_dims(x, [1, 0, 2, 3])], NONE),  # only a 1 moves
        ([reshape(4, 48), reshape(1, 4, 48)], NONE),
        ([reshape(2, 2, 48), lambda x: relax.op.permute_dims(x, [1, 0, 2]), reshape(1, 4, 6, 8)],
         Conversions(1, SIZE)),  # a channel shuffle
        ([packed], Conversions(1, SIZE)),
        ([lambda x: relax.op.layout_transform(x, lambda n, c, h, w: (n, h * 8 + w, c))],
         Conversions(1, SIZE)),
        ([lambda x: relax.op.layout_transform(x, lambda n, c, h, w: (n * 4 + c, h, w))], NONE),
    ],
)  # fmt: skip
def test_conversions_of_a_chain_are_counted(
    bodies: list[Body], expected: Conversions, lower: Any
) -> None:
    assert count(lower(module(*bodies))) == expected


def test_padding_counts_where_it_moves() -> None:
    """6 channels in fours are written as 8; padding the rows of a matrix keeps the order."""
    mod = module(packed, shape=(1, 6, 3, 3))
    assert count(mod) == count(LOWER(mod)) == Conversions(1, 8 * 9 * 4)
    rows = module(lambda x: relax.op.layout_transform(x, lambda i, j: (i, j // 4, j % 4), 0.0),
                  shape=(3, 6))  # fmt: skip
    assert count(LOWER(rows)) == NONE  # [3, 2, 4] is [3, 8]: rows with a gap


def test_unpacking_with_a_crop_counts() -> None:
    @T.prim_func(private=True)
    def unpack(
        a: T.Buffer((1, 2, 3, 3, 4), "float32"), out: T.Buffer((1, 6, 3, 3), "float32")
    ) -> None:
        for c, h, w in T.grid(6, 3, 3):
            out[0, c, h, w] = a[0, c // 4, h, w, c % 4]

    assert count(_called(unpack, (1, 2, 3, 3, 4), (1, 6, 3, 3))) == Conversions(1, 6 * 9 * 4)


def test_a_name_decides_nothing() -> None:
    @T.prim_func(private=True)
    def transpose(a: T.Buffer((4, 8), "float32"), out: T.Buffer((4, 8), "float32")) -> None:
        for i, j in T.grid(4, 8):
            out[i, j] = a[i, j]

    @T.prim_func(private=True)
    def relu(a: T.Buffer((4, 8), "float32"), out: T.Buffer((8, 4), "float32")) -> None:
        for k in range(32):
            out[k // 4, k % 4] = a[k % 4, k // 4]

    assert count(_called(transpose, (4, 8), (4, 8))) == NONE
    assert count(_called(relu, (4, 8), (8, 4))) == Conversions(1, 128)


def test_computing_gathering_and_flipping_are_not_conversions() -> None:
    @T.prim_func(private=True)
    def scaled(a: T.Buffer((4, 8), "float32"), out: T.Buffer((8, 4), "float32")) -> None:
        for i, j in T.grid(8, 4):
            out[i, j] = a[j, i] * T.float32(2)

    assert count(_called(scaled, (4, 8), (8, 4))) == NONE
    others: list[Body] = [
        lambda x: relax.op.flip(x, 2),
        lambda x: relax.op.repeat(x, 2, 1),
        lambda x: relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]),
        lambda x: relax.op.strided_slice(x, [2], [0], [6], [2]),
        lambda x: relax.op.take(x, relax.const(np.array([3, 1, 2, 0])), 1),
    ]
    for body in others:
        assert count(LOWER(module(body))) == NONE


def test_windows_and_reversed_parts_are_not_conversions() -> None:
    """Neither reads each element at most once, in a mixed radix."""

    @T.prim_func(private=True)
    def windows(a: T.Buffer((9,), "float32"), out: T.Buffer((4, 3), "float32")) -> None:
        for i, j in T.grid(4, 3):
            out[i, j] = a[i + j * 2]

    @T.prim_func(private=True)
    def reversed_part(a: T.Buffer((4, 8), "float32"), out: T.Buffer((3, 8), "float32")) -> None:
        for i, j in T.grid(3, 8):
            out[i, j] = a[3 - i, j]

    assert count(_called(windows, (9,), (4, 3))) == NONE
    assert count(_called(reversed_part, (4, 8), (3, 8))) == NONE


def test_a_hidden_stage_counts() -> None:
    """A PrimFunc that first writes its input in another order, then computes."""

    @T.prim_func(private=True, s_tir=True)
    def both(a: T.Buffer((4, 8), "float32"), out: T.Buffer((8, 4), "float32")) -> None:
        turned = T.sblock_alloc_buffer((8, 4))
        for i, j in T.grid(8, 4):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                turned[vi, vj] = a[vj, vi]
        for i, j in T.grid(8, 4):
            with T.sblock("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.exp(turned[vi, vj])

    assert count(_called(both, (4, 8), (8, 4))) == Conversions(1, 128)


def _called(func: Any, source: tuple[int, ...], result: tuple[int, ...]) -> Any:
    x = relax.Var("x", relax.TensorType(source, "float32"))
    builder = relax.BlockBuilder()
    gvar = builder.add_func(func, func.__name__ if hasattr(func, "__name__") else "f")
    with builder.function("main", [x]):
        with builder.dataflow():
            ty = relax.TensorType(result, "float32")
            out = builder.emit_output(relax.call_tir(gvar, [x], out_ty=ty))
        builder.emit_func_output(out)
    return builder.get()


def test_constants_weights_and_dead_code_do_not_count() -> None:
    weight = relax.const(np.ones((4, 3), "float32"))

    def body(x: Any) -> Any:
        return relax.op.matmul(x, relax.op.permute_dims(weight, [1, 0]))

    for lower in (LOWER, FUSE, FUSE_TIR):
        assert count(lower(module(body, shape=(2, 3)))) == NONE
    assert count(module(nhwc, num_input=1)) == Conversions(1, SIZE)
    assert count(module(nhwc, num_input=0)) == NONE  # the only parameter is a weight
    dead = _dead()
    assert count(dead) == NONE and "permute_dims" in dead["main"].script()


def _dead() -> Any:
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            builder.emit(relax.op.permute_dims(x, [1, 0]))
            out = builder.emit_output(relax.op.exp(x))
        builder.emit_func_output(out)
    return builder.get()


def test_mixed_activations_and_constants_inside_one_fused_function() -> None:
    """Of two transposes in one PrimFunc only that of the activation counts."""
    weight = relax.const(np.ones((3, 2), "float32"))

    def body(x: Any) -> Any:
        turned = relax.op.permute_dims(x, [1, 0])
        return relax.op.add(turned, relax.op.permute_dims(relax.op.permute_dims(weight)))

    assert count(FUSE_TIR(module(body, shape=(2, 3)))) == Conversions(1, 24)


def test_branches_and_several_calls() -> None:
    from tvm.script import ir as I
    from tvm.script import relax as R

    @I.ir_module
    class Mod:
        @R.function(private=True)
        def turn(x: R.Tensor((2, 3), "float32")) -> R.Tensor((3, 2), "float32"):
            y: R.Tensor((3, 2), "float32") = R.permute_dims(x, [1, 0])
            return y

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), c: R.Tensor((), "bool")) -> R.Tensor(
            (3, 2), "float32"
        ):
            cls = Mod
            if c:
                a = cls.turn(x)
                r = R.add(a, cls.turn(x))
            else:
                r = R.permute_dims(x, [1, 0])
            return r

    assert count(Mod) == Conversions(3, 72)


def test_symbolic_extents_count_as_64() -> None:
    n = tvm.tirx.Var("n", "int64")
    mod = module(nhwc, shape=(n, 3, 2, 2))
    assert count(mod) == count(LOWER(mod)) == Conversions(1, 64 * 12 * 4)


def test_only_modules_are_counted() -> None:
    with pytest.raises(TypeError, match="IRModule, got int"):
        count(3)


@pytest.mark.parametrize(
    ("shape", "order"), [((2, 3), (1, 0)), ((2, 2, 4), (1, 2, 0)), ((4, 4), (1, 0))]
)
def test_transposes_are_mixed_radix(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    line = np.arange(np.prod(shape)).reshape(shape).transpose(order).reshape(-1)
    assert mixed_radix(line)
    assert not mixed_radix(line[::-1]) and not mixed_radix(np.roll(line, 1))


def test_an_unknown_definition_is_not_a_conversion() -> None:
    from opinfo.analysis.chain.tensor_program import TensorDefinition
    from opinfo.analysis.terms.term import TensorVar

    assert not is_conversion(
        TensorDefinition(TensorVar("t", (), "float32"), None, frozenset(), "unknown")
    )
