"""The parser of scripts that tests use makes what TVM's makes, and refuses what it refuses."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T
from tvm.script.parser.core import doc
from tvm.script.parser.core.evaluator import _eval_expr as shortened
from tvm.tirx.script.parser import entry

from opinfo.testing.mutants import parsed

HEADER = "# from tvm.script import ir as I\n# from tvm.script import relax as R\n"
VALUES = {"a": {"k": [3, 5]}, "k": "k", "f": dict, "pair": (("x", 1),), "words": {"y": 2}, "c": 1j}
#: Each form that is looked up, and forms that are left to TVM.
EXPRESSIONS = [
    "k", "None", "...", "-1.5", "'text'", "c.imag", "k.upper", "a[k]", "a[k][0]", "len", "f(pair)",
    "f(pair, z=3)", "k.upper()", "f(*[pair])", "f(**words)", "f(pair, z=3, **words)", "a['k'][0:1]",
    "[x for x in pair]", "(lambda x: x + 1)(2)", "k if c else a", "not k", "(k, c)", "f'{k}'",
]  # fmt: skip
FAILURES = ["absent", "absent.x", "k.absent", "a[c]", "k()", "f(absent)", "len(1, 2)",
            "f(**words, y=1)"]  # fmt: skip
MODULE = (
    HEADER
    + """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def double(x: T.Buffer((T.int64(4),), "float32"), y: T.Buffer((T.int64(4),), "float32")):
        for i in range(4):
            with T.sblock("y"):
                v = T.axis.spatial(4, i)
                y[v] = T.if_then_else(v < 2 and x[v] > T.float32(0), x[v] * T.float32(2), x[v])

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.call_tir(Module.double, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""
)


def node(text: str) -> Any:
    return doc.parse(text, mode="eval").body


def outcome(text: str) -> Any:
    """What Python evaluates."""
    try:
        return eval(text, dict(VALUES))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("text", [e for e in EXPRESSIONS if "lambda" not in e])
def test_an_expression_has_the_value_that_python_gives_it(text: str) -> None:
    assert shortened(node(text), dict(VALUES)) == outcome(text)


@pytest.mark.parametrize("text", FAILURES)
def test_what_fails_fails_with_the_same_error(text: str) -> None:
    kind, message = outcome(text)
    with pytest.raises(kind) as raised:
        shortened(node(text), dict(VALUES))
    assert str(raised.value) == message


def test_a_name_of_the_program_comes_before_a_builtin() -> None:
    assert shortened(node("len"), {"len": 7}) == 7
    assert shortened(node("len"), {}) is builtins.len


def test_a_call_is_made_in_a_frame_whose_globals_are_the_names() -> None:
    names = {"frame": sys._getframe, "zero": 0}
    assert shortened(node("frame(zero)"), names).f_globals is names


def test_an_inline_function_finds_the_parser_that_calls_it() -> None:
    @T.macro(hygienic=False)
    def twice(x: Any, y: Any, i: Any) -> None:
        y[i] = x[i] + x[i]

    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            twice(x, y, i)

    assert "x[i] + x[i]" in main.script()


def test_a_module_is_parsed_with_its_functions() -> None:
    module = tvm.script.from_source("# from tvm.script import tirx as T\n" + MODULE)
    assert {v.name_hint for v in module.get_global_vars()} == {"double", "main"}
    again = tvm.script.from_source(module.script())
    assert tvm_ffi.structural_equal(module, again)


def test_functions_of_a_module_are_left_to_the_module() -> None:
    """The line of the class is read; without it each would be parsed twice, `Module` unknown."""
    assert entry.inspect is not __import__("inspect")
    frames = entry.inspect.stack()
    assert [f.function for f in frames] == [f.function for f in __import__("inspect").stack()]
    (read,) = [k for k, f in enumerate(frames) if f.code_context is not None]
    assert read == 2


def test_an_undefined_name_is_an_error_in_its_place() -> None:
    with pytest.raises(tvm.error.DiagnosticError):
        parsed("@T.prim_func\ndef f():\n    T.evaluate(absent)\n")
