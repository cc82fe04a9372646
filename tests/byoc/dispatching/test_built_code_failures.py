"""C++ of a backend that fails to compile, to load, or when called with what it does not expect."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc import Backend, Code, Pattern, Region, dispatch, one
from opinfo.byoc.codegen.abi import ABI
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, shared
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ..backends import toy
from ..backends.toy import TOY
from .test_region_failures import SHAPE, X, nn, op

PLAIN = """
static void %(symbol)s_(%(tensors)s) {}
OPINFO_TYPED(%(symbol)s, %(symbol)s_)
"""


FFI = """#include <tvm/ffi/tvm_ffi.h>
#include <tvm/ffi/container/tensor.h>
static void %(symbol)s_(%(tensors)s) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(%(symbol)s, %(symbol)s_)
"""


@pytest.mark.parametrize(("form", "tensor", "count"), [
    (ABI + PLAIN, "const DLTensor*", 1), (ABI + PLAIN, "const DLTensor*", 3),
    (FFI, "tvm::ffi::TensorView", 3),
])  # fmt: skip
def test_wrong_arguments_of_a_function_are_reported_at_build(
    form: str, tensor: str, count: int
) -> None:
    def convert(regions: Sequence[Region]) -> Code:
        sums = [r for r in regions if r.calls[0].op == "relax.add"]
        code = toy.convert([r for r in regions if r not in sums])
        tensors = ", ".join([tensor] * count)
        head, body = form[: form.index("static void %")], form[form.index("static void %") :]
        source = "".join(body % {"symbol": r.symbol, "tensors": tensors} for r in sums)
        return Code(head + code.source + source, tuple(r.symbol for r in regions))

    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(nn.relu(emit(op.negative(emit(op.add(x, relax.const(2.0)))))))

    mod = nets.net(build, SHAPE, legal=False)
    message = f"takes {count} tensors but is called with 2: 1 input, 1 result; literals are in"
    with pytest.warns(UserWarning, match=message):
        found = compile_module(mod, [replace(TOY, convert=convert)], plan=False)
    assert [t.ops for t in found.dispatched.taken] == [("relax.nn.relu",)]
    assert [f.stage for f in found.dispatched.lost] == ["arity"]
    out = found.machine()["main"](tvm.runtime.tensor(X)).numpy()
    np.testing.assert_allclose(out, run(mod, [X])[0], rtol=1e-6)


def test_literals_are_arguments_and_constants_are_operands() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        two = relax.const(np.float32(2))
        values = (op.add(x, two), op.subtract(two, x), op.add(x, x), op.add(x, nets.const(rng, 6)))
        return relax.Tuple([emit(v) for v in values])

    seen = []

    def convert(regions: Sequence[Region]) -> Code:
        for r in regions:
            (call,) = r.calls
            kinds = [a if isinstance(a, float) else a.source for a in call.arguments]  # type: ignore[union-attr]
            seen.append((kinds, len(r.inputs), len(r.constants), call.literal("x2")))
        return Code("", tuple(r.symbol for r in regions))

    anything = Backend("any", (Pattern("any", one(("relax.add", "relax.subtract"))),), convert)
    dispatch(nets.net(build, SHAPE), [anything])
    assert seen == [
        (["input", 2.0], 1, 0, 2.0), ([2.0, "input"], 1, 0, None), (["input", "input"], 1, 0, None),
        (["input", "constant"], 1, 1, None),
    ]  # fmt: skip


@pytest.mark.parametrize(("script", "reason"), [
    ("exit 1", "ended with status 1"),
    ("echo 'a.cc:3:1: error: no such thing' >&2; exit 1", "error: no such thing"),
    ("kill -9 $$", "was killed by SIGKILL"),
    ("sleep 60", "exceeded the limit of 0.2 s"),
    ("exit 0", "succeeded but wrote no file"),
])  # fmt: skip
def test_a_compiler_that_fails_is_one_line(
    script: str, reason: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(
        "opinfo.byoc.codegen.compilers.toolchain.SECONDS", 0.2 if "sleep" in script else 60
    )
    with pytest.raises(CompilerError) as caught:
        shared(str(tmp_path / "x.so"), [str(tmp_path / "x.cc")])
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    mod = nets.net(lambda e, r, x: e(nn.relu(x)), SHAPE, legal=False)
    with pytest.raises(CompilerError, match=reason):
        compile_module(mod, [TOY])


def test_a_compiler_that_ends_while_it_is_stopped_hides_no_error(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file fails; the process of the other one ends between a look at it and its signal."""
    compiler = tmp_path / "g++"
    compiler.write_text('#!/bin/sh\ncase "$*" in *b.cc*) sleep 2;; *) sleep 1; exit 1;; esac\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    signals = []

    def gone(group: int, signal: int) -> None:
        signals.append(group)
        raise ProcessLookupError

    monkeypatch.setattr("os.killpg", gone)
    monkeypatch.setattr("opinfo.byoc.codegen.compilers.toolchain._at_once", lambda: 2)
    with pytest.raises(CompilerError, match="ended with status 1"):
        shared(str(tmp_path / "x.so"), [str(tmp_path / f"{n}.cc") for n in "ab"])
    assert len(signals) == 1


def _scaled(init: str) -> Backend:
    """Products with a constant, whose constants are loaded by what is ``init``."""

    def convert(regions: Sequence[Region]) -> Code:
        source = ABI + "static opinfo::Constants constants;\n"
        arrays: list[tuple[str, np.ndarray[Any, Any]]] = []
        for r in regions:
            value = f"opinfo::data(constants[{len(arrays)}])" if r.constants else "opinfo::data(x)"
            source += f"""
static void {r.symbol}_(const DLTensor* x, const DLTensor* y) {{
  const float* w = reinterpret_cast<const float*>({value});
  for (int k = 0; k < 12; ++k)
    reinterpret_cast<float*>(opinfo::data(y))[k] =
        reinterpret_cast<const float*>(opinfo::data(x))[k] * w[k];
}}
OPINFO_TYPED({r.symbol}, {r.symbol}_)
"""
            arrays += [(f"{r.symbol}_{k}", a) for k, a in enumerate(r.constants)]
        symbols = tuple(r.symbol for r in regions)
        source += init % {"first": symbols[0], "last": symbols[-1]}
        return Code(source, symbols, tuple(arrays))

    return Backend("scaled", (Pattern("scale", one("relax.multiply")),), convert)


def _products(emit: Any, rng: Any, x: Any) -> Any:
    """One without a constant, two with one."""
    y = emit(op.negative(emit(op.multiply(x, x))))
    y = emit(op.negative(emit(op.multiply(y, nets.const(rng, *SHAPE)))))
    return emit(op.multiply(y, nets.const(rng, *SHAPE)))


@pytest.mark.parametrize(("init", "lost"), [
    ("", 2),
    ("OPINFO_CONSTANTS(%(last)s, constants)\n", 2),
    ("OPINFO_CONSTANTS(%(first)s, constants)\n", 0),
])  # fmt: skip
def test_constants_that_nothing_loads_cost_the_regions_that_have_them(init: str, lost: int) -> None:
    mod = nets.net(_products, SHAPE, legal=False)
    with warnings.catch_warnings(record=True):
        found = compile_module(mod, [_scaled(init)], plan=False)
    assert [f.stage for f in found.dispatched.lost] == ["constants"] * lost
    for f in found.dispatched.lost:
        assert "no function __init_scaled_" in f.reason and "OPINFO_CONSTANTS(scaled_" in f.reason
    assert len(found.dispatched.taken) == 3 - lost
    out = found.machine()["main"](tvm.runtime.tensor(X)).numpy()
    np.testing.assert_allclose(out, run(mod, [X])[0], rtol=1e-6)


@pytest.mark.parametrize(("statement", "error", "message"), [
    ("constants[12];", IndexError, "constant 12 of 0 that were loaded"),
    ('throw opinfo::Error("ValueError", "no such size");', ValueError, "no such size"),
    ('throw std::runtime_error("the device is busy");', RuntimeError, "the device is busy"),
])  # fmt: skip
def test_what_a_typed_function_throws_is_a_python_error(
    statement: str, error: type[Exception], message: str
) -> None:
    def convert(regions: Sequence[Region]) -> Code:
        (r,) = regions
        body = f"""static opinfo::Constants constants;
static void f(const DLTensor*, const DLTensor*) {{ {statement} }}
OPINFO_TYPED({r.symbol}, f)
"""
        return Code(ABI + body, (r.symbol,))

    backend = Backend("throwing", (Pattern("relu", one("relax.nn.relu")),), convert)
    mod = nets.net(lambda e, r, x: e(nn.relu(x)), SHAPE, legal=False)
    machine = compile_module(mod, [backend], plan=False).machine()
    with pytest.raises(error, match=message):
        machine["main"](tvm.runtime.tensor(X))
