"""A region that fails at any step is lost alone, by name; the results stay those of TVM."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.byoc import Backend, CannotForce, Code, Node, Pattern, Region, dispatch, maybe, one
from opinfo.byoc.backend.catalog import find, register
from opinfo.byoc.backend.guarded_calls import guarded
from opinfo.byoc.codegen.abi import ABI
from opinfo.byoc.codegen.compilers.toolchain import CompilerError, shared
from opinfo.byoc.codegen.loading.resolve_apart import MARK
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ..backends import toy
from ..backends.toy import TOY

op, nn = relax.op, relax.op.nn
SHAPE = (2, 6)


def _several(emit: Any, rng: Any, x: Any) -> Any:
    """Three regions of the backend, which the last one's operator is alone in."""
    y = emit(op.exp(emit(nn.relu(emit(op.add(x, x))))))
    z = emit(nn.relu(emit(op.negative(y))))
    return emit(op.add(emit(op.negative(z)), emit(op.negative(y))))


X = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


def _without(name: str, change: Callable[[Code, Region], Code]) -> Backend:
    """The backend whose code is changed where a region begins with this operator."""

    def convert(regions: Sequence[Region]) -> Code:
        code = toy.convert(regions)
        for r in regions:
            if r.calls[0].op == name and not r.find("relax.exp"):
                code = change(code, r)
        return code

    return replace(TOY, convert=convert)


def _raises(code: Code, r: Region) -> Code:
    raise KeyError("no such opcode")


def _named(text: str) -> Callable[[Code, Region], Code]:
    return lambda code, r: replace(code, source=code.source + text % {"symbol": r.symbol})


def _loads(begin: str) -> Callable[[Code, Region], Code]:
    """Code that builds a model from its constants when its symbols are resolved."""

    def change(code: Code, r: Region) -> Code:
        source = f"""{code.source}
#include <unistd.h>
#include <cstdlib>
OPINFO_FUNCTION({MARK}) {{ return 0; }}
OPINFO_FUNCTION(__init_{code.symbols[0]}) {{ {begin} }}
"""
        return replace(code, source=source, constants=(("model", np.zeros(1, "uint8")),))

    return change


FAULTS: dict[str, tuple[Callable[[Code, Region], Code], str, str]] = {
    "convert": (_raises, "convert", "KeyError: 'no such opcode'"),
    "compile": (_named("int %(symbol)s_ = no_such_name;"), "compile", "no_such_name"),
    "link": (lambda c, r: replace(c, options=(*c.options, "-lno_such_library")), "link",
             "no_such_library"),
    "load": (_named('extern "C" int absent(); int %(symbol)s_() { return absent(); }'), "load",
             "undefined symbol: absent"),
    "crash": (_named("""
#include <cstdlib>
__attribute__((constructor)) static void %(symbol)s_begin() { abort(); }
"""), "load", "it ends the process by SIGABRT"),
    "exit": (_named("""
#include <unistd.h>
__attribute__((constructor)) static void %(symbol)s_begin() { _exit(0); }
"""), "load", "it ends the process with status 0"),
    "rounding": (_named("""
#include <cfenv>
__attribute__((constructor)) static void %(symbol)s_begin() { fesetround(FE_UPWARD); }
"""), "load", "it changes how the process computes: rounding"),
    "model crash": (_loads("abort();"), "load", "it ends the process by SIGABRT"),
    "model exit": (_loads("_exit(0);"), "load", "it ends the process"),
    "model error": (_loads('return opinfo::fail("ValueError", "no such layer");'), "load",
                    "no such layer"),
    "symbol": (lambda c, r: replace(c, source=c.source.replace(r.symbol, "other")), "load",
               "Cannot find"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_region_that_fails_is_lost_alone_by_name(name: str) -> None:
    change, stage, reason = FAULTS[name]
    mod = nets.net(_several, SHAPE, legal=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = compile_module(mod, [_without("relax.nn.relu", change)], plan=False)
    (failure,) = found.dispatched.lost
    assert (failure.stage, failure.ops, failure.now) == (stage, ("relax.nn.relu",), ("tvm",))
    assert reason in failure.reason and "\n" not in str(failure)
    assert [t.ops for t in found.dispatched.taken] == [
        ("relax.add", "relax.nn.relu", "relax.exp"), ("relax.add",),
    ]  # fmt: skip
    assert [str(w.message) for w in told if "toy" in str(w.message)] == [str(failure)]
    (left,) = (o for o in found.dispatched.left if o.op == "relax.nn.relu")
    assert left.why.startswith("toy, pattern relu: ") and reason in left.why
    out = found.machine()["main"](tvm.runtime.tensor(X)).numpy()
    np.testing.assert_allclose(out, run(mod, [X])[0], rtol=1e-6)


def test_of_a_chain_only_what_fails_is_lost() -> None:
    def convert(regions: Sequence[Region]) -> Code:
        if any(r.find("relax.exp") for r in regions):
            raise ValueError("exp is not finished")
        return toy.convert(regions)

    with pytest.warns(UserWarning, match="exp is not finished; run by toy, tvm"):
        done = dispatch(nets.net(_several, SHAPE), [replace(TOY, convert=convert)])
    kept = [o for t in done.taken for o in t.ops]
    assert kept == ["relax.add", "relax.nn.relu", "relax.nn.relu", "relax.add"]
    assert [o.op for o in done.left if "exp is not finished" in o.why] == ["relax.exp"]


def test_the_next_backend_takes_what_failed() -> None:
    bad = _without("relax.nn.relu", _raises)
    with pytest.warns(UserWarning, match="no such opcode"):
        done = dispatch(nets.net(_several, SHAPE), [bad, replace(TOY, name="next")], {"toy": 9})
    assert sorted(t.backend for t in done.taken) == ["next", "toy", "toy"]
    assert done.lost[0].now == ("next",)


def test_what_is_forced_and_fails_is_an_error_that_says_why() -> None:
    bad = _without("relax.nn.relu", _raises)
    mod = nets.net(lambda e, r, x: e(nn.relu(e(op.negative(x)))), SHAPE)
    with pytest.raises(CannotForce, match="its converter failed: KeyError"):
        dispatch(mod, [bad], force={"nn.relu": "toy"})


def test_a_converter_that_fails_on_several_at_once_converts_each_alone() -> None:
    """Both have a constant that is called the same."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(op.multiply(x, nets.const(rng, *SHAPE)))
        return emit(op.multiply(emit(op.negative(y)), nets.const(rng, *SHAPE)))

    def convert(regions: Sequence[Region]) -> Code:
        (r,) = regions
        body = f"""static opinfo::Constants {r.symbol}_constants;
            OPINFO_CONSTANTS({r.symbol}, {r.symbol}_constants)
            OPINFO_FUNCTION({r.symbol}) {{
              const float* w = reinterpret_cast<const float*>(
                  opinfo::data({r.symbol}_constants[0]));
              auto* x = reinterpret_cast<float*>(opinfo::data(opinfo::tensor(args[0])));
              auto* y = reinterpret_cast<float*>(opinfo::data(opinfo::tensor(args[1])));
              for (int k = 0; k < 12; ++k) y[k] = x[k] * w[k];
              return 0;
            }}"""
        return Code(ABI + body, (r.symbol,), (("weights", r.constants[0]),))

    single = Backend("single", (Pattern("scale", one("relax.multiply")),), convert)
    mod = nets.net(build, SHAPE, legal=False)
    with pytest.warns(UserWarning, match="each region is converted alone"):
        found = compile_module(mod, [single], plan=False)
    assert len(found.dispatched.taken) == 2 and not found.dispatched.lost
    out = found.machine()["main"](tvm.runtime.tensor(X)).numpy()
    np.testing.assert_allclose(out, run(mod, [X])[0], rtol=1e-6)


@pytest.mark.parametrize(("changes", "reason"), [
    ({"symbols": ()}, "Code.symbols has no toy_0"),
    ({"symbols": "toy_0"}, "Code.symbols must be strings"),
    ({"options": [3]}, "Code.options must be strings"),
    ({"constants": [("w", None)]}, "w must be an array, got None"),
    ({"constants": ["w"]}, "must be pairs of a name and a value, got 'w'"),
    ({"source": b"int"}, "Code.source must be C"),
])  # fmt: skip
def test_code_that_makes_no_sense_is_refused(changes: Any, reason: str) -> None:
    def convert(regions: Sequence[Region]) -> Code:
        return replace(toy.convert(regions), **changes)

    mod = nets.net(lambda e, r, x: e(nn.relu(x)), SHAPE)
    with pytest.warns(UserWarning, match=reason):
        assert not dispatch(mod, [replace(TOY, convert=convert)]).taken


# ---------------------------------------------------------------------- hooks before a region


def _negative(condition: Callable[[Node], Any]) -> Backend:
    step = one("relax.negative", condition)
    return replace(TOY, patterns=(*TOY.patterns, Pattern("negative", step)))


def test_a_condition_that_raises_costs_its_pattern_and_is_named() -> None:
    def large(node: Node) -> str | None:
        return None if node.info.attrs["absent"] else "small"

    with pytest.warns(UserWarning, match=r"toy, pattern negative, condition .*large of "
                      "relax.negative: a condition failed: KeyError: 'absent'"):  # fmt: skip
        done = dispatch(nets.net(_several, SHAPE), [_negative(large)])
    assert len(done.taken) == 3
    why = {o.why for o in done.left if o.op == "relax.negative"}
    assert len(why) == 1 and "large failed: KeyError: 'absent'" in why.pop()


@pytest.mark.parametrize(("answer", "why"), [
    (False, "the condition test_a_condition_may_return_a_bool.test does not hold"),
    ("it is odd", "it is odd"),
    (3, "failed: TypeError: it returned 3, expected None, a reason, an Unmet or a bool"),
    ("", "failed: TypeError: it returned '', expected None, a reason, an Unmet or a bool"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_condition_may_return_a_bool(answer: Any, why: str) -> None:
    def test(node: Node) -> Any:
        return answer

    left = dispatch(nets.net(_several, SHAPE), [_negative(test)]).left
    assert {o.why.endswith(why) for o in left if o.op == "relax.negative"} == {True}, left


def test_a_condition_that_is_true_holds() -> None:
    found = nets.net(_several, SHAPE)
    names = [o.op for o in dispatch(found, [replace(
        _negative(lambda node: True), convert=lambda rs: Code("", tuple(r.symbol for r in rs)),
    )]).left]  # fmt: skip
    assert "relax.negative" not in names


@pytest.mark.parametrize(("name", "reason"), [
    ("relax.nn.con2d", "unknown operator 'relax.nn.con2d'; did you mean 'relax.nn.conv2d' or"),
    ("conv2d", "unknown operator 'conv2d'; did you mean 'relax.nn.conv2d'?"),
    ("relax.nn.attn", "unknown operator 'relax.nn.attn'"),
])  # fmt: skip
def test_a_misspelt_operator_is_refused_where_it_is_written(name: str, reason: str) -> None:
    for step in (one, maybe):
        with pytest.raises(ValueError, match=reason):
            step(name)


def test_what_is_no_backend_is_refused_where_it_is_written() -> None:
    wrong: Any
    for wrong, reason in (({"convert": None}, "convert must be a function, got None"),
                          ({"patterns": ("add",)}, "patterns must be of Pattern, got 'add'"),
                          ({"cost": 3}, "cost must be a function, got 3")):  # fmt: skip
        with pytest.raises(TypeError, match=reason):
            replace(TOY, **wrong)
    for call, name in ((one, "relax.add"), (maybe, "relax.add"), (Pattern, "sum")):
        wrong = "float32"
        with pytest.raises(TypeError, match="expected"):
            call(name, wrong)
    with pytest.raises(TypeError, match="register: expected a Backend"):
        register(wrong)


@pytest.mark.parametrize("cost", [
    lambda r: float("nan"), lambda r: None, lambda r: -1.0, lambda r: float("inf"),
    lambda r: 1 / 0, lambda r: True, lambda r: "cheap",
])  # fmt: skip
def test_a_cost_that_is_none_gives_the_default_and_is_named(cost: Any) -> None:
    with pytest.warns(UserWarning, match=r"toy, cost .* of relax.add.*: its cost function failed: "
                      r".*; the default cost of 0 is used"):  # fmt: skip
        done = dispatch(nets.net(_several, SHAPE), [replace(TOY, cost=cost)])
    assert len(done.taken) == 3 and len(done.failed) == 1 and not done.lost


def test_a_cost_function_sees_numbers_for_symbolic_extents() -> None:
    n = tirx.Var("n", "int64")
    seen: list[Any] = []

    def cost(r: Region) -> float:
        seen.extend(itertools.chain(*(t.shape for t in (*r.inputs, *r.results))))
        return float(sum(e for c in r.calls for e in c.result.shape))

    anything = Backend("any", (Pattern("any", one(("relax.reshape", "relax.concat"))),),
                       lambda rs: Code("", tuple(r.symbol for r in rs)), cost=cost)  # fmt: skip
    mod = nets.net(lambda e, r, x: e(op.concat((e(op.reshape(x, (n, 2, 3))),) * 2, 0)), (n, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        done = dispatch(mod, [anything])
    assert done.taken and {type(e) for e in seen} == {int} and 128 in seen


def test_layouts_and_versions_that_fail_cost_themselves() -> None:
    def version() -> str:
        raise OSError("no such file")

    bad = replace(TOY, wants={"relax.nn.conv2d": ("NHXX2",)}, version=version)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        done = dispatch(nets.net(_several, SHAPE), [bad], layouts="best")
    assert len(done.taken) == 3
    messages = sorted(str(w.message) for w in told if w.category is UserWarning)
    assert [m.partition(":")[0] for m in messages] == ["toy", "toy"]
    assert "layouts cannot be used" in messages[0] and "no such file" in messages[1]
    assert guarded(bad, []).wants == {}


def test_a_backend_whose_module_cannot_be_imported_is_not_available(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        __import__("opinfo.byoc.backend.catalog", fromlist=["x"]).BUILT_IN, "gone", "gone:GONE"
    )
    reason = find("gone").available()
    assert reason is not None and reason.startswith("it cannot be loaded: gone of opinfo ")


# ---------------------------------------------------------------------- what functions take

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
def test_a_function_of_other_arguments_is_told_when_it_is_built(
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
    told = f"takes {count} tensors but is called with 2: 1 input, 1 result; literals are in"
    with pytest.warns(UserWarning, match=told):
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


# ---------------------------------------------------------------------- the compiler


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


# ---------------------------------------------------------------------- constants


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
