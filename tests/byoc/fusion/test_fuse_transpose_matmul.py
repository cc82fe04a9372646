"""Products read transposed operands as they are stored; results stay bit-equal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import Chain, op_infos
from opinfo.analysis.composites import transposed_matmul
from opinfo.testing.strip import strip_module
from opinfo.transform import FuseTransposeMatmul

from ...common.prim_funcs import LEGALIZE, fused, prim_funcs
from ...common.run import run

OP = relax.op
N = tirx.Var("n", "int64")
NT = "relax.nn.transposed_matmul"
Build = Callable[..., Any]


def lowered(build: Build, *shapes: tuple[Any, ...], fuse: bool = False) -> Any:
    """A lowered module without names, perhaps with its operators fused."""
    params = [relax.Var(f"p{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(build(builder.emit, *params)))
        builder.emit_func_output(out)
    return strip_module((fused if fuse else LEGALIZE)(builder.get()))


def names(mod: Any) -> list[tuple[str, ...]]:
    chains = [op_infos(f) for f in prim_funcs(mod)]
    assert all(isinstance(c, Chain) for c in chains)
    return sorted(c.names for c in chains if isinstance(c, Chain))


def agree(before: Any, after: Any, *shapes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype("float32") for s in shapes]
    for a, b in zip(run(before, values), run(after, values), strict=True):
        np.testing.assert_array_equal(a, b)


def _linear(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(x, e(OP.permute_dims(w)))


def _first(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(e(OP.permute_dims(x)), w)


def _both(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(e(OP.permute_dims(x)), e(OP.permute_dims(w)))


def _scores(e: Any, q: Any, k: Any) -> Any:
    return OP.matmul(q, e(OP.permute_dims(k, [0, 1, 3, 2])))


@pytest.mark.parametrize(
    ("build", "shapes", "transposed"),
    [
        (_linear, ((N, 8), (6, 8)), (False, True)),
        (_linear, ((2, N, 8), (6, 8)), (False, True)),
        (_linear, ((1, 1, 8), (6, 8)), (False, True)),
        (_first, ((8, 5), (8, 6)), (True, False)),
        (_both, ((8, 5), (6, 8)), (True, True)),
        (_scores, ((1, 2, N, 8), (1, 2, 7, 8)), (False, True)),
    ],
)
def test_a_transpose_becomes_an_attribute_of_the_product(
    build: Build, shapes: tuple[tuple[Any, ...], ...], transposed: tuple[bool, bool]
) -> None:
    before = lowered(build, *shapes)
    after = FuseTransposeMatmul()(before)
    relax.analysis.well_formed(after)
    (kernel,) = prim_funcs(after)
    chain = op_infos(kernel)
    assert isinstance(chain, Chain) and chain.names == (NT,)
    assert tuple(chain.steps[0].attrs["transposed"]) == transposed
    sizes = [tuple(5 if e is N else e for e in s) for s in shapes]
    agree(before, after, *sizes)


def test_the_module_is_the_one_that_reads_the_weight_as_stored() -> None:
    def direct(e: Any, x: Any, w: Any) -> Any:
        return transposed_matmul(x, w)

    shapes = ((5, 8), (6, 8))
    after = FuseTransposeMatmul()(lowered(_linear, *shapes))
    expected = lowered(direct, *shapes)
    assert strip_module(after)["main"].script() == expected["main"].script()
    assert names(after) == names(expected)


def test_each_product_reads_a_shared_weight_as_stored() -> None:
    def shared(e: Any, x: Any, w: Any) -> Any:
        t = e(OP.permute_dims(w))
        return relax.Tuple([e(OP.matmul(x, t)), e(OP.matmul(e(OP.exp(x)), t))])

    before = lowered(shared, (5, 8), (6, 8))
    after = FuseTransposeMatmul()(before)
    assert "relax.permute_dims" not in [n for names_ in names(after) for n in names_]
    agree(before, after, (5, 8), (6, 8))


def test_a_transpose_that_is_read_elsewhere_stays_there() -> None:
    def result(e: Any, x: Any, w: Any) -> Any:
        t = e(OP.permute_dims(w))
        return relax.Tuple([t, e(OP.matmul(x, t))])

    before = lowered(result, (5, 8), (6, 8))
    after = FuseTransposeMatmul()(before)
    assert names(after) == [(NT,), ("relax.permute_dims",)]
    agree(before, after, (5, 8), (6, 8))


def test_steps_after_the_product_stay_with_it() -> None:
    def activated(e: Any, x: Any, w: Any) -> Any:
        return OP.nn.relu(e(_linear(e, x, w)))

    before = lowered(activated, (5, 8), (6, 8), fuse=True)
    after = FuseTransposeMatmul()(before)
    assert names(after) == [(NT, "relax.nn.relu")]
    agree(before, after, (5, 8), (6, 8))


def _squared(e: Any, x: Any) -> Any:
    return OP.matmul(x, e(OP.permute_dims(x)))


def test_a_gram_matrix_reads_its_operand_twice() -> None:
    before = lowered(_squared, (5, 8))
    after = FuseTransposeMatmul()(before)
    assert len(prim_funcs(after)) == 1
    agree(before, after, (5, 8))


def _batch_moved(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(x, e(OP.permute_dims(w, [1, 0, 2])))


def _scaled(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(x, e(OP.multiply(e(OP.permute_dims(w)), relax.const(2.0))))


def _summed(e: Any, x: Any, w: Any) -> Any:
    return OP.add(x, e(OP.permute_dims(w)))


def _reshaped(e: Any, x: Any, w: Any) -> Any:
    return OP.matmul(x, e(OP.reshape(w, (8, 6))))


@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (_batch_moved, ((2, 5, 8), (8, 2, 6))),
        (_scaled, ((5, 8), (6, 8))),
        (_summed, ((5, 8), (8, 5))),
        (_reshaped, ((5, 8), (6, 8))),
    ],
)
def test_other_operands_stay(build: Build, shapes: tuple[tuple[int, ...], ...]) -> None:
    mod = lowered(build, *shapes)
    tvm.ir.assert_structural_equal(FuseTransposeMatmul()(mod), mod)


def test_a_transpose_with_one_element_in_another_place_stays() -> None:
    """A decoy: rows of the copy are rotated by one."""
    mod = lowered(_linear, (5, 8), (6, 8))
    for gvar, func in mod.functions_items():
        text = func.script() if isinstance(func, tirx.PrimFunc) else ""
        chain = op_infos(func) if text else None
        if isinstance(chain, Chain) and chain.names == ("relax.permute_dims",):
            changed = tvm.script.from_source(
                "# from tvm.script import tirx as T\n" + _rotated(text)
            )
            mod[gvar] = changed.with_attrs(func.attrs).without_attr("global_symbol")
    tvm.ir.assert_structural_equal(FuseTransposeMatmul()(mod), mod)


def _rotated(text: str) -> str:
    """The script of a transpose with the second index of the store rotated."""
    line = next(x for x in text.splitlines() if re.search(r"\] = \w+\[", x))
    new = re.sub(r"= (\w+)\[(\w+), (\w+)\]", r"= \1[(\2 + T.int64(1)) % T.int64(6), \3]", line)
    assert new != line
    return text.replace(line, new)


def test_functions_that_nothing_calls_stay() -> None:
    """Some are called by the runtime, by name."""
    mod = lowered(_linear, (5, 8), (6, 8))
    (kernel,) = prim_funcs(lowered(lambda e, x: OP.exp(x), (4, 4)))
    gvar = tvm.ir.GlobalVar("kernel")
    mod[gvar] = kernel
    assert "kernel" in [g.name_hint for g in FuseTransposeMatmul()(mod).get_global_vars()]


def test_only_modules_are_accepted() -> None:
    from opinfo.byoc.fusion.fuse_transpose_matmul import fuse_transpose_matmul

    with pytest.raises(TypeError, match=r"expected a tvm.IRModule, got int"):
        fuse_transpose_matmul(3)
