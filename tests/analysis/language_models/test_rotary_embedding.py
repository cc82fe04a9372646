"""Rotary embeddings: TVM's own kernels are recognised, numpy agrees, and mutants are refused."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn.llm import position_embedding as llm

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos
from opinfo.analysis.answer.recover import lift_or_refuse, recover_direct
from opinfo.analysis.composites.positions.rotary import (
    ROTARY,
    TABLES,
    apply_rotary_embedding,
    rotary_embedding,
)
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.proposal.build import rebuild
from opinfo.analysis.proposal.proposal import Proposal
from opinfo.testing.mutants import edited, mutants, parsed
from opinfo.testing.strip import strip
from opinfo.testing.unoptimised import unoptimised

from ...common.interpret import Undefined, compiled

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
LLAMA4 = LLAMA3 | {"rope_type": "llama4"}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 4096,
        "inv_theta_log_scale": 1 / (2 * math.log(1e4))}  # fmt: skip
GPTJ = {"rope_type": "gptj"}


def mapped(scaling: Mapping[str, Any], make: Any = None, **options: Any) -> Any:
    """TVM's kernel over a map of positions."""
    given = {"theta": 10000, "scale": 1.0, "head_dim": 8, "num_q_heads": 4, "num_kv_heads": 2,
             "dtype": "float16", "rope_scaling": dict(scaling), **options}  # fmt: skip
    return (make or llm.llama_rope_with_position_map)(**given)


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


#: TVM's kernel and the attributes that differ from the usual ones.
FORMS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "neox": (lambda: mapped({}), {}),
    "scaled positions": (lambda: mapped({}, scale=0.3), {"scale": 0.3}),
    "float32": (lambda: mapped({}, dtype="float32", theta=500000), {"base": 500000.0}),
    "other heads": (lambda: mapped({}, num_q_heads=3, num_kv_heads=1), {"heads": (3, 1, 1)}),
    "partial": (lambda: mapped({}, rotary_dim=4), {"rotary_dim": 4}),
    "gptj": (lambda: mapped(GPTJ), {"style": "gptj"}),
    "gptj partial": (lambda: mapped(GPTJ, rotary_dim=4), {"style": "gptj", "rotary_dim": 4}),
    "llama3": (
        lambda: mapped(LLAMA3),
        {"scaling": "llama3", "parameters": (1 / 8, 8192 / (2 * math.pi) * (1 / 3), 1 / 3)},
    ),
    "llama4": (
        lambda: mapped(LLAMA4, llm.llama4_rope_with_position_map),
        {"scaling": "llama3", "style": "gptj",
         "parameters": (1 / 8, 8192 / (2 * math.pi) * (1 / 3), 1 / 3)},
    ),
    "llama4 step": (
        lambda: mapped(LLAMA4 | {"high_freq_factor": 1.0}, llm.llama4_rope_with_position_map),
        {"scaling": "llama4", "style": "gptj", "parameters": (8.0, 8192.0, 2 * math.pi)},
    ),
    "yarn": (lambda: mapped(YARN), {"scaling": "yarn"}),
}  # fmt: skip
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


def module(make: Any, operands: list[Any], attrs: Mapping[str, Any]) -> Any:
    params = [relax.Var(f"a{k}", relax.TensorType(a.shape, str(a.dtype)))
              for k, a in enumerate(operands)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(make(*params, **attrs))
        builder.emit_func_output(out)
    return builder.get()


def run(operands: list[Any], make: Any = rotary_embedding, **attrs: Any) -> Any:
    built = module(make, operands, attrs)
    machine = relax.VirtualMachine(unoptimised(built), tvm.cpu())
    out = machine["main"](*map(tvm.runtime.tensor, operands))
    return out.numpy() if hasattr(out, "numpy") else [t.numpy() for t in out]


X = np.random.default_rng(0).uniform(-2, 2, (3, 8, 8)).astype("float32")
PLACES = np.array([4, 0, 71], "int32")


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

    mod = relax.transform.LegalizeOps()(module(rotated, [X, X[:, :1], X[:, :1]], {}))
    mod = relax.transform.AnnotateTIROpPattern()(mod)
    mod = relax.transform.FuseTIR()(relax.transform.FuseOps()(mod))
    (func,) = (f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc))
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
        for a, b in zip(compiled(func)(values, sizes), _operators(func, info, values, sizes),
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

_DATA = np.random.default_rng(1).uniform(-2, 2, (2, 3, 8, 8))
INPUTS = [([_DATA[k], np.array(p, "int32")], {"seq_len": 3, "apply_rope": switch})
          for k, (p, switch) in enumerate([([1, 5, 2], 1), ([3, 0, 9], 0)])]  # fmt: skip
#: Changes of every place in the text where they apply.
CHANGES = [
    (r"T\.cos", "T.sin"), (r"T\.sin", "T.cos"), (r" \+ ", " - "), (r" < ", " <= "),
    (r"-1\.0", "1.0"), (r"-1\.0", "-2.0"), (r"10000\.0", "1000.0"), (r"d \* 2", "d * 3"),
    (r"d \* 2", "(d * 2 + 1)"), (r"d \* 2", "h * 2"), (r"2 \* \(d // 2\)", "d"),
    (r"d \+ 4", "d + 3"), (r"d \+ 4", "(d + 5) % 8"), (r"d - 4", "d - 3"),
    (r"d - 4", "(d + 3) % 8"), (r"d \+ 1", "d + 2"), (r"d - 1", "d"),
    (r"d % 2 == 0", "d % 2 == 1"), (r"d < 4", "d < 3"), (r"d < 4", "d < 5"), (r"d < 4", "d >= 4"),
    (r"% 8", "% 4"), (r"% 4", "% 8"), (r"8\.0", "4.0"), (r"4\.0", "8.0"),
    (r"position_map\[s\]", "position_map[2 - s]"),
    (r"position_map\[s\]", "(position_map[s] + 1)"), (r"position_map\[s\]", "s"),
    (r"s, h, d\]\)", "s, h, 7 - d])"), (r"qkv\[s, h", "qkv[s, h - 1"), (r"h - 4", "5 - h"),
    (r"apply_rope > T\.int64\(0\)", "apply_rope >= T.int64(0)"),
    (r"apply_rope > T\.int64\(0\)", "apply_rope > T.int64(1)"), (r" / ", " * "),
    (r"T\.max", "T.min"), (r"T\.min", "T.max"), (r"0\.125", "0.25"), (r"0\.33", "0.34"),
]  # fmt: skip


def _changed(func: Any, branches: bool) -> Iterator[tuple[str, Any]]:
    """Mutants; all branches have one formula, so it may be enough to change the first one."""
    text = func.script()
    body = text.index("T.writes")
    last = len(text) if branches else text.index("else:", body)
    changes = ((body + match.start(), body + match.end(), new) for old, new in CHANGES
               for match in re.finditer(old, text[body:last]))  # fmt: skip
    for (start, end, new), mutant in edited(text, changes):
        yield f"{text[start:end]} to {new} at {start}", mutant
    yield from mutants(func, last)


def _operators(
    func: Any, info: OpInfo, values: list[Any], sizes: Mapping[str, int]
) -> list[Any]:  # fmt: skip
    """What the recovered operator computes, by its own lowering."""
    built = rebuild(Proposal(info.name, info.operands, info.attrs), lift(func))
    scalars = [np.array(sizes.get(p.name, 0)) for p in func.params]
    inputs = [*values, *scalars[len(values) :]]
    results = len(lift(func).outputs)
    read = [p.position for p in built.params[:-results]]  # type: ignore[union-attr]
    return compiled(built.func)([inputs[p] for p in read], {"seq_len": 3})


def _results(func: Any, given: Any) -> list[Any] | None:
    try:
        return [a for values, sizes in given for a in compiled(func)(values, sizes)]
    except (Undefined, ArithmeticError, LookupError, ValueError, TypeError):
        return None


def _same(a: Any, b: Any) -> bool:
    return all(np.allclose(x, y, rtol=1e-5, atol=1e-7) for x, y in zip(a, b, strict=True))


def _answer(func: Any) -> OpInfo | Refusal:
    """The answer over the PrimFunc's own buffers, without a search for layouts."""
    expression = lift_or_refuse(func)
    return expression if isinstance(expression, Refusal) else recover_direct(expression, func)


def _tried(original: Any, given: Any = INPUTS, branches: bool = True) -> tuple[int, list[str]]:
    """The number of mutants that differ, and those that are recognised wrongly."""
    expected, seen = _results(original, given), set[int]()
    different, wrong = 0, []
    for change, mutant in _changed(original, branches):
        key = tvm_ffi.structural_hash(mutant)
        got = None if key in seen else _results(mutant, given)
        seen.add(key)
        if got is None or _same(got, expected):
            continue
        different += 1
        info = _answer(mutant)
        if isinstance(info, OpInfo):
            answer = [a for v, s in given for a in _operators(mutant, info, v, s)]
            wrong += [] if _same(got, answer) else [f"{change}: {info}"]
    return different, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neox", "gptj", "gptj partial", "llama3", "yarn"])
def test_no_mutant_is_certified(name: str) -> None:
    different, wrong = _tried(FORMS[name][0](), branches=name == "neox")
    assert not wrong
    assert different >= 30


@pytest.mark.slow
@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_no_mutant_with_tables_is_certified(style: str) -> None:
    tables = [np.random.default_rng(k).uniform(-1, 1, (3, 1, 8)) for k in range(2)]
    operands = [X, *(t.astype("float32") for t in tables)]
    built = module(apply_rotary_embedding, operands, {"rotary_dim": 8, "style": style})
    legal = relax.transform.LegalizeOps()(built)
    (func,) = (f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc))
    different, wrong = _tried(parsed(func.script()), [([_DATA[0], *tables], {})])
    assert not wrong
    assert different >= 10
