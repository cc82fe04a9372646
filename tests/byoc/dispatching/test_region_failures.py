"""A region that fails at any step is lost alone, by name; the results stay those of TVM."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc import Backend, CannotForce, Code, Pattern, Region, dispatch, one
from opinfo.byoc.codegen.abi import ABI
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


#: A process that exits goes the way of one that aborts; `test_toolchain.py` has it, too.
@pytest.mark.part(*(name for name in FAULTS if name not in ("exit", "model exit")))
@pytest.mark.parametrize("name", FAULTS)
def test_a_region_that_fails_is_lost_alone_by_name(name: str) -> None:
    change, stage, reason = FAULTS[name]
    mod = nets.net(_several, SHAPE, legal=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = compile_module(mod, [_without("relax.nn.relu", change)], plan=False)
    (failure,) = found.dispatched.lost
    assert (failure.stage, failure.ops, failure.now) == (stage, ("relax.nn.relu",), ("tvm",))
    assert reason in failure.reason and "\n" not in str(failure)
    assert [t.ops for t in found.dispatched.taken] == [
        ("relax.add", "relax.nn.relu", "relax.exp"), ("relax.add",),
    ]  # fmt: skip
    assert [str(w.message) for w in caught if "toy" in str(w.message)] == [str(failure)]
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
