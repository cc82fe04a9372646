"""Rotary embeddings: TVM's own kernels are recognised, numpy agrees, and mutants are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn.llm import position_embedding as llm

from opinfo.analysis import Chain, OpInfo, op_info, op_infos
from opinfo.analysis.composites.positions.rotary import (
    ROTARY,
    TABLES,
    apply_rotary_embedding,
    rotary_embedding,
)
from opinfo.testing.strip import strip
from opinfo.testing.unoptimised import unoptimised

from ...common.interpret import compiled
from ...common.prim_funcs import fused, prim_funcs
from .rotary_cases import FORMS, GPTJ, INPUTS, LLAMA3, X, module, operators


def counted(monkeypatch: Any, scaling: Mapping[str, Any], dtype: str, **options: Any) -> Any:
    """TVM's kernel over the number of positions; for TVM 0.27 the scalar is in the wrong place."""
    kernels: list[Any] = []

    class Recorded:
        def tensor_ir_op(self, func: Any, *args: Any, **kwargs: Any) -> None:
            kernels.append(func)

    monkeypatch.setattr(llm, "op", Recorded())
    if scaling["rope_type"] == "none":
        monkeypatch.setattr(llm, "switch_rope_freq_func", lambda _: llm.rope_freq_default)
    data = nn.Tensor.placeholder([2, tirx.Var("seq_len", "int64"), 8, 8], dtype)
    given = {"theta": 10000, "scale": 1.0, "num_q_heads": 4, "num_kv_heads": 2, **options}
    llm.llama_rope(data, tirx.Var("total", "int64"), rope_scaling=dict(scaling), **given)
    return kernels[0]


USUAL = {"base": 10000.0, "rotary_dim": 8, "style": "neox", "heads": (4, 2, 2), "scale": 1.0,
         "scaling": "none", "parameters": (), "compute_dtype": "float32"}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_tvms_kernels_are_recognised(name: str) -> None:
    make, different = FORMS[name]
    func = make()
    info = op_info(strip(func))
    assert isinstance(info, OpInfo) and info.name == ROTARY
    assert info.operands == (0, 1, 5)
    expected = USUAL | dict(different)
    assert {k: info.attrs[k] for k in expected if k != "parameters"} == {
        k: v for k, v in expected.items() if k != "parameters"
    }
    if "parameters" in different or info.attrs["scaling"] == "none":
        assert info.attrs["parameters"] == expected["parameters"]
    assert info.certificate.kind == "proved"
    assert info.certificate.exact == (name != "yarn")  # which has 1 - (1 - mask)
    chain = op_infos(func)
    assert isinstance(chain, Chain) and chain.names == (ROTARY,)


@pytest.mark.part
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("scaling", [{"rope_type": "none"}, GPTJ, LLAMA3])
def test_kernels_over_the_number_of_positions(
    monkeypatch: Any, scaling: Mapping[str, Any], dtype: str
) -> None:
    info = op_info(strip(counted(monkeypatch, scaling, dtype, rotary_dim=4, scale=0.5)))
    assert isinstance(info, OpInfo) and info.name == ROTARY
    assert info.operands == (0, 4)
    assert (info.attrs["compute_dtype"], info.attrs["scale"]) == (dtype, 0.5)


# ---------------------------------------------------------------------------- numbers


def reference(
    x: Any, positions: Any, base: float, size: int, style: str, factor: Any = None
) -> Any:
    """Multiply pairs as complex numbers by ``exp(i * angle)``."""
    k = np.arange(size // 2)
    frequency = base ** (-2.0 * k / size)
    angles = np.asarray(positions)[:, None] * (frequency if factor is None else factor(frequency))
    turn = np.exp(1j * angles)[:, None, :]
    part = np.asarray(x, "float64")[..., :size]
    if style == "neox":
        out = (part[..., : size // 2] + 1j * part[..., size // 2 :]) * turn
        turned = np.concatenate([out.real, out.imag], -1)
    else:
        out = (part[..., ::2] + 1j * part[..., 1::2]) * turn
        turned = np.stack([out.real, out.imag], -1).reshape(part.shape)
    return np.concatenate([turned, x[..., size:]], -1)


def run(operands: list[Any], make: Any = rotary_embedding, **attrs: Any) -> Any:
    built = module(make, operands, attrs)
    machine = relax.VirtualMachine(unoptimised(built), tvm.cpu())
    out = machine["main"](*map(tvm.runtime.tensor, operands))
    return out.numpy() if hasattr(out, "numpy") else [t.numpy() for t in out]


PLACES = np.array([4, 0, 71], "int32")


@pytest.mark.part
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("size", [2, 4, 8])
def test_it_turns_pairs_as_complex_numbers(style: str, size: int) -> None:
    got = run([X, PLACES], base=100.0, rotary_dim=size, style=style)
    np.testing.assert_allclose(got, reference(X, PLACES, 100.0, size, style), atol=1e-4)


def test_heads_are_split_and_values_are_copied() -> None:
    got = run([X, PLACES, np.array(1)], base=100.0, rotary_dim=8, heads=[5, 2, 1], scale=0.5)
    whole = reference(X, PLACES * 0.5, 100.0, 8, "neox")
    np.testing.assert_allclose(np.concatenate(got[:2], 1), whole[:, :7], atol=1e-4)
    np.testing.assert_array_equal(got[2], X[:, 7:])
    copied = run([X, PLACES, np.array(0)], base=100.0, rotary_dim=8, heads=[5, 2, 1])
    np.testing.assert_array_equal(np.concatenate(copied, 1), X)


def test_the_number_of_positions_places_the_last_one() -> None:
    got = run([X, np.array(10)], base=100.0, rotary_dim=8)
    np.testing.assert_allclose(got, reference(X, [7, 8, 9], 100.0, 8, "neox"), atol=1e-4)


@pytest.mark.part
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("size", [4, 8])
def test_tables_turn_as_angles_do(style: str, size: int) -> None:
    angles = PLACES[:, None] * 100.0 ** (-2.0 * np.arange(size // 2) / size)
    angles = np.concatenate([angles, angles], 1) if style == "neox" else angles.repeat(2, 1)
    tables = [f(angles)[:, None].astype("float32") for f in (np.cos, np.sin)]
    got = run([X, *tables], apply_rotary_embedding, rotary_dim=size, style=style)
    np.testing.assert_allclose(got, reference(X, PLACES, 100.0, size, style), atol=1e-4)


def test_operators_that_tvm_fuses_are_named() -> None:
    """As a model of PyTorch has them: slices, a negation, a concatenation, products, a sum."""
    ops = relax.op

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        first, second = (ops.strided_slice(x, [2], [k], [k + 4]) for k in (0, 4))
        half = ops.concat([ops.negative(second), first], 2)
        return ops.add(ops.multiply(x, cos), ops.multiply(half, sin))

    (func,) = prim_funcs(fused(module(rotated, [X, X[:, :1], X[:, :1]], {})))
    info, chain = op_info(strip(func)), op_infos(func)
    assert isinstance(info, OpInfo) and info.name == TABLES
    assert info.operands == (0, 1, 2)
    assert dict(info.attrs) == {"rotary_dim": 8, "style": "neox"}
    assert isinstance(chain, Chain) and "relax.concat" in chain.names


def _llama3(f: Any) -> Any:
    """As in the configuration of Llama 3.1: frequencies of long waves are divided by 8."""
    wave = 2 * math.pi / f
    smooth = np.clip((8192 / wave - 1.0) / (4.0 - 1.0), 0, 1)
    return (1 - smooth) * f / 8 + smooth * f


def test_llama3_smooths_frequencies() -> None:
    places = PLACES * 1000
    numbers = [1 / 8, 8192 / (2 * math.pi) / 3, 1 / 3]
    got = run([X, places], base=500000.0, rotary_dim=8, scaling="llama3", parameters=numbers)
    np.testing.assert_allclose(got, reference(X, places, 500000.0, 8, "neox", _llama3), atol=2e-2)


@pytest.mark.parametrize("name", ["neox", "gptj partial", "llama3", "llama4 step", "yarn"])
def test_the_operator_computes_what_tvms_kernel_computes(name: str) -> None:
    func = FORMS[name][0]()
    info = op_info(func)
    assert isinstance(info, OpInfo)
    for values, sizes in INPUTS:
        for a, b in zip(compiled(func)(values, sizes), operators(func, info, values, sizes),
                        strict=True):  # fmt: skip
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [({"rotary_dim": 3}, "rotary_dim 3"), ({"rotary_dim": 10}, "rotary_dim 10"),
     ({"style": "other"}, "style other"), ({"scaling": "ntk"}, "scaling ntk"),
     ({"heads": [4, 4, 1]}, "heads"), ({"base": 0.0}, "base 0"),
     ({"scaling": "yarn", "parameters": [1.0]}, "expected \\(factor, first, length\\)"),
     ({"compute_dtype": "float16"}, "compute_dtype")],
)  # fmt: skip
def test_malformed_calls_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run([X, PLACES], **{"base": 100.0, "rotary_dim": 8, **attrs})


# ---------------------------------------------------------------------------- mutants
