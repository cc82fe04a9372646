"""An operator with a definition in Relax operators is typed, lowered and certified by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import OpInfo, Proposal, op_info, recogniser, recogniser_scope
from opinfo.analysis.composites import composite
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.testing.unoptimised import unoptimised

from ...common.prim_funcs import prim_funcs

NAME = "relax.nn.test_composite"


@pytest.fixture
def scaled() -> Any:
    """``tanh(scale * x) + bias``, without bias ``tanh(scale * x)``."""

    @composite(NAME)
    def test_composite(data: Any, bias: Any = None, *, scale: float = 1.0) -> Any:
        """Return ``tanh(scale * data) + bias``."""
        if scale == 0:
            raise ValueError("scale is 0")
        dtype = str(data.ty.dtype)
        out = relax.op.tanh(relax.op.multiply(data, relax.const(scale, dtype)))
        return out if bias is None else relax.op.add(out, bias)

    return test_composite


def module(make: Any, *types: tuple[tuple[Any, ...], str], **attrs: Any) -> Any:
    """A module whose main returns one call."""
    params = [relax.Var(f"a{k}", relax.TensorType(s, d)) for k, (s, d) in enumerate(types)]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make(*params, **attrs)))
    return builder.get()


def run(mod: Any, *arrays: np.ndarray) -> Any:
    machine = relax.VirtualMachine(unoptimised(mod), tvm.cpu())
    out = machine["main"](*map(tvm.runtime.tensor, arrays))
    return out.numpy() if hasattr(out, "numpy") else [t.numpy() for t in out]


def blocks(func: Any) -> int:
    return str(func).count("T.sblock(") - 1  # without the root, which is a comment


def test_it_runs_with_symbolic_sizes_in_one_block(scaled: Any) -> None:
    n = tirx.Var("n", "int64")
    mod = module(scaled, ((n, 3), "float32"), ((3,), "float32"), scale=2.0)
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(mod))
    assert blocks(kernel) == 1
    x, b = np.random.default_rng(0).random((5, 3), "float32"), np.arange(3, dtype="float32")
    np.testing.assert_allclose(run(mod, x, b), np.tanh(2 * x) + b, rtol=1e-6)


def test_the_type_is_the_definitions(scaled: Any) -> None:
    n = tirx.Var("n", "int64")
    mod = module(scaled, ((n, 1), "float16"), ((3,), "float16"))
    tvm.ir.assert_structural_equal(mod["main"].ret_ty, relax.TensorType((n, 3), "float16"))


def test_the_constructor_checks_operands_and_attributes(scaled: Any) -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    assert constructor_of(NAME) is scaled and scaled.__doc__.startswith("Return")
    assert len(scaled(x).args) == 1 and len(scaled(x, x).args) == 2
    with pytest.raises(TypeError, match="data: expected a Relax expression, got 3"):
        scaled(3)
    with pytest.raises(TypeError, match="scale: expected a plain value"):
        scaled(x, scale=tirx.Var("n", "int64"))
    with pytest.raises(TypeError, match="unexpected keyword"):
        scaled(x, size=1)
    with pytest.raises(ValueError, match="scale is 0"):
        relax.BlockBuilder().normalize(scaled(x, scale=0.0))


def test_a_new_definition_replaces_the_old_one(scaled: Any) -> None:
    @composite(NAME)
    def other(data: Any) -> Any:
        """Return ``-data``."""
        return relax.op.negative(data)

    assert run(module(other, ((2,), "float32")), np.ones(2, "float32")).tolist() == [-1, -1]


def test_several_results_and_reductions() -> None:
    @composite("relax.nn.test_composite_pair")
    def pair(data: Any) -> Any:
        """Return the maximum of each row, and the rows relative to it."""
        largest = relax.op.max(relax.op.abs(data), axis=[1], keepdims=True)
        return relax.op.divide(data, largest), largest

    mod = module(pair, ((4, 3), "float32"))
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(mod))
    assert blocks(kernel) == 2
    x = np.random.default_rng(0).random((4, 3), "float32") - 0.5
    relative, largest = run(mod, x)
    expected = np.abs(x).max(1, keepdims=True)
    np.testing.assert_array_equal(largest, expected)
    np.testing.assert_array_equal(relative, x / expected)


def test_the_size_stays_linear() -> None:
    @composite("relax.nn.test_composite_diamonds")
    def diamonds(data: Any) -> Any:
        """Return ``2**24 * data``, each step of which reads the one before twice."""
        for _ in range(24):
            data = relax.op.add(data, data)
        return data

    mod = module(diamonds, ((2,), "float32"))
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(mod))
    assert blocks(kernel) == 24
    assert run(mod, np.ones(2, "float32")).tolist() == [2.0**24] * 2


def test_ranges_and_moves_are_inlined() -> None:
    @composite("relax.nn.test_composite_range")
    def ramp(data: Any) -> Any:
        """Return the parity of each column, plus the rows' values twice."""
        column = relax.op.arange(0, data.ty.shape[1], 1, "float32")
        two = relax.const(2.0, "float32")
        parity = relax.op.floor_mod(column, two)
        parity = relax.op.add(relax.op.multiply(parity, parity), relax.op.floor_mod(parity, two))
        turned = relax.op.permute_dims(relax.op.expand_dims(parity, [1]), [1, 0])
        return relax.op.add(turned, relax.op.add(data, data))

    mod = module(ramp, ((2, 4), "float32"))
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(mod))
    assert blocks(kernel) == 1
    expected = [[0, 2, 0, 2]] * 2
    assert run(mod, np.zeros((2, 4), "float32")).tolist() == expected


def test_what_has_no_te_compute_is_refused() -> None:
    @composite("relax.nn.test_composite_sorted")
    def ordered(data: Any) -> Any:
        """Return the sorted data."""
        return relax.op.sort(data)

    with pytest.raises(ValueError, match=r"relax\.sort: it is not one TE call"):
        relax.transform.LegalizeOps()(module(ordered, ((3,), "float32")))
    with pytest.raises(TypeError, match="args"):
        composite("relax.nn.test_composite_args")(lambda *data: data[0])


def test_a_proposal_is_certified_by_the_definition(scaled: Any) -> None:
    make = module(scaled, ((2, 3), "float32"), ((3,), "float32"), scale=0.5)
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(make))
    with recogniser_scope():

        @recogniser("test_composite", precedence=1, ops=(NAME,))
        def propose(expression: Any) -> Any:
            return [Proposal(NAME, (0, 1), {"scale": s}) for s in (2.0, 0.5)]

        info = op_info(kernel)
        assert isinstance(info, OpInfo) and info.name == NAME
        assert dict(info.attrs) == {"scale": 0.5} and info.certificate.exact


def test_a_new_definition_is_what_certifies(scaled: Any) -> None:
    make = module(scaled, ((2, 3), "float32"), scale=0.5)
    (kernel,) = prim_funcs(relax.transform.LegalizeOps()(make))
    with recogniser_scope():

        @recogniser("test_composite", precedence=1, ops=(NAME,))
        def propose(expression: Any) -> Any:
            return [Proposal(NAME, (0,), {"scale": 0.5})]

        assert isinstance(op_info(kernel), OpInfo)

        @composite(NAME)
        def other(data: Any, *, scale: float) -> Any:
            """Return ``scale * data``."""
            return relax.op.multiply(data, relax.const(scale, "float32"))

        recogniser("test_composite_again", precedence=2, ops=())(lambda expression: [])
        assert not isinstance(op_info(kernel), OpInfo)
