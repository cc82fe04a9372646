"""TVMScript files: what is read, and what is never evaluated."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.frontend import FrontendError
from opinfo.frontend.formats.from_script import from_text
from tests import models

HEAD = "from tvm.script import ir as I, relax as R, tirx as T\n"

RELU = '@R.function\ndef main(x: R.Tensor((4, 4), "float32")):\n    return R.nn.relu(x)\n'
COPY = """
@T.prim_func
def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i]
"""


def test_functions_are_gathered_in_one_module() -> None:
    mod = from_text(HEAD + RELU + COPY)
    assert {gvar.name_hint for gvar in mod.get_global_vars()} == {"main", "copy"}
    assert isinstance(mod["copy"], tirx.PrimFunc)


def test_aliases_and_literals_are_honoured() -> None:
    text = "from tvm.script import relax as X\nN = 4\n" + RELU.replace("R.", "X.")
    mod = from_text(text.replace("(4, 4)", "(N, N)"))
    assert [int(d) for d in mod["main"].params[0].ty.shape.values] == [4, 4]


def test_printed_module_with_constants_reads_back() -> None:
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        added = relax.op.add(x, relax.const(np.arange(4, dtype="float32")))
        builder.emit_func_output(builder.emit(added))
    for mod in (builder.get(), relax.transform.LegalizeOps()(builder.get())):
        tvm.ir.assert_structural_equal(from_text(mod.script(show_meta=True)), mod)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("y = open('/etc/passwd')", "'open'"),
        ("y = eval('1')", "'eval'"),
        ("y = __import__('os')", "'__import__'"),
        ("y = x.__class__", "'.__class__'"),
        ("y = x._move", "'._move'"),
        ("y = T", "'T' without an attribute"),
        ("y = R.nn", "'R.nn'"),
        ("y = R.nn.nn.relu(x)", "'R.nn.nn.relu'"),
        ("y = T.entry.inspect.os.system('true')", "'T.entry.inspect.os.system'"),
        ("y = R.emit_te(x)", "'R.emit_te'"),
        ("y = R.call_py_func('f', x)", "'R.call_py_func'"),
        ("y = R.const([72], 'uint8').value.numpy().tofile('f')", "'.tofile'"),
        ("y = R.const([72], 'uint8').data", "'.data' of an expression"),
        ("y = (lambda f: f('f', 'w'))(open)", "a call of"),
        ("y = R.add(x, (z := open))", "is not allowed"),
        ("y = 'a{0.__class__}'.format(x)", "'.format'"),
        ("y = f'{x}'", "is not allowed"),
        ("y = R.add(*x)", "'*x'"),
        ("y = R.sum(x, **x)", "'**'"),
        ("y: R.Callable(None, None, True, derive_func='f') = x", "'derive_func'"),
        ("y: R.Callable(None, None, True, 'f') = x", "'derive_func'"),
        ("y = max(('open',))('f')", "a call of"),
        ("import os", "'import os'"),
        ("y = [z for z in ().__class__.__bases__]", "is not allowed"),
    ],
)
def test_code_is_refused(line: str, message: str) -> None:
    text = f"{HEAD}@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    {line}\n    return x\n"
    with pytest.raises(FrontendError) as error:
        from_text(text, "model.py")
    assert str(error.value).startswith("model.py:") and message in str(error.value)


@pytest.mark.parametrize(
    "shape",
    [
        "({s},)",
        "['n', {s}]",
        "({s} + '',)",
        "('' + {s},)",
        "(max({s}, ' '),)",
        "(N,)",
        "N2",
        "(m['a'][0],)",
        "{{'a': ({s},)}}['a']",
        "(T.int64({s}),)",
        "(f'{{1}}',)",
    ],
)
@pytest.mark.parametrize("builder", ["R.Tensor", "T.Buffer", "R.Shape"])
def test_no_string_in_a_shape_runs(builder: str, shape: str, tmp_path: Path) -> None:
    """TVM evaluates strings in shapes; the namespaces reach modules."""
    mark = tmp_path / "mark"
    attack = repr(f"{builder[0]}.entry.inspect.os.system('touch {mark}') + 8")
    names = f"N = {attack}\nN2 = ({attack},)\n" if "N" in shape else ""
    if "m[" in shape:
        nodes = [("ffi.String", "a"), ("ffi.String", ast.literal_eval(attack)), ("ffi.Array", [1])]
        graph = [{"type": t, "data": d} for t, d in (*nodes, ("ffi.Map", [0, 2]))]
        text = json.dumps({"root_index": 3, "nodes": graph})
        names = f"m = tvm.ir.load_json({text!r})\n"
    head, kind = (
        ("R.function", "return x") if builder[0] == "R" else ("T.prim_func", "T.evaluate(0)")
    )
    text = f"{HEAD}{names}@{head}\ndef f(x: {builder}({shape.format(s=attack)})):\n    {kind}\n"
    with pytest.raises(FrontendError, match=r"model.py:\d+: "):
        from_text(text, "model.py")
    assert not mark.exists()


@pytest.mark.parametrize("separator", ["\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_what_is_checked_is_what_is_parsed(separator: str, tmp_path: Path) -> None:
    """`str.splitlines` knows more separators of lines than Python's grammar."""
    mark = tmp_path / "mark"
    hidden = f'y = R.const([1], "int8").data.numpy().tofile("{mark}")'
    text = (
        f'{HEAD}"""{separator * 3}"""\n@R.function\ndef g(x: R.Tensor((4,))):\n    return x\n'
        f'@T.prim_func\ndef f(A: T.Buffer((4,))):\n    """\n    {hidden}\n    """\n'
        "    T.evaluate(0)\n"
    )
    mod = from_text(text)
    assert {gvar.name_hint for gvar in mod.get_global_vars()} == {"f", "g"}
    assert not mark.exists()


def test_dimensions_are_arithmetic_of_names() -> None:
    text = (
        f'{HEAD}@R.function\ndef main(x: R.Tensor(("n", "m * 2 + 1"), "float32"), '
        'y: R.Tensor(("n", "m"), "float32")):\n    return x\n'
    )
    dims = from_text(text)["main"].params[0].ty.shape.values
    assert [str(d) for d in dims] == ["n", "m * T.int64(2) + T.int64(1)"]


def test_errors_have_the_lines_of_the_file() -> None:
    """TVM parses other text, without its empty lines and breaks."""
    body = "\n\n    y = R.nn.relu(\n        x\n    )\n\n    z = R.add(y, w)\n    return z\n"
    text = f"{HEAD}@R.function\ndef main(x: R.Tensor((4,))):\n{body}"
    with pytest.raises(FrontendError, match=r"^model\.py:10: error: Undefined variable: w"):
        from_text(text, "model.py")


def test_names_of_builtins_are_names() -> None:
    text = (
        f"{HEAD}@R.function\ndef main(input: R.Tensor((4,), 'float32')):\n"
        "    sum = R.nn.relu(input)\n    return sum\n"
    )
    assert from_text(text)["main"].params[0].name == "input"


def test_a_name_that_is_bound_later_is_not_a_builtin(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = (
        f"{HEAD}@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    f = open\n"
        f"    y = f('{mark}', 'w')\n    open = x\n    return x\n"
    )
    with pytest.raises(FrontendError, match="Undefined variable: open"):
        from_text(text)
    assert not mark.exists()


def _symbolic() -> tvm.IRModule:
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        low = builder.emit(relax.op.maximum(x, relax.const(-np.inf, "float32")))
        builder.emit_func_output(builder.emit(relax.op.reshape(low, (n * 4,))))
    return builder.get()


@pytest.mark.parametrize("name", ["squeezenet", "symbolic"])
@pytest.mark.parametrize("stage", ["relax", "legal", "fused"])
def test_what_tvm_prints_is_read(name: str, stage: str) -> None:
    mod = _symbolic() if name == "symbolic" else models.module(name)
    if stage != "relax":
        mod = relax.transform.LegalizeOps()(mod)
    if stage == "fused":
        passes = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps()]
        mod = tvm.ir.transform.Sequential([*passes, relax.transform.FuseTIR()])(mod)
    read = from_text(mod.script(show_meta=True))
    assert read.script() == mod.script()  # the metadata has the spans of the text, too


@pytest.mark.parametrize("place", ["decorator", "annotation", "default"])
def test_code_outside_the_body_is_refused(place: str, tmp_path: Path) -> None:
    touch = f"open('{tmp_path / 'touched'}', 'w')"
    text = {
        "decorator": f"@R.function({touch})\ndef main(x: R.Tensor((4,))):\n    return x\n",
        "annotation": f"@R.function\ndef main(x: R.Tensor(({touch},))):\n    return x\n",
        "default": f"@R.function\ndef main(x: R.Tensor((4,)) = {touch}):\n    return x\n",
    }[place]
    with pytest.raises(FrontendError, match="is not allowed in a TVMScript file"):
        from_text(HEAD + text)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nos.system('true')\n", ":2: Expr is not TVMScript"),
        ("def f():\n    pass\n", ":1: undecorated definition is not TVMScript"),
        ("N = print(1)\n", ":1: neither literal nor metadata"),
        (HEAD + RELU.replace("nn.relu", "nn.rel"), ":4: 'R.nn.rel' is not allowed"),
        (HEAD + RELU.replace("relu(x)", "relu(y)"), "Undefined variable: y"),
    ],
)
def test_errors_name_the_place(text: str, message: str) -> None:
    with pytest.raises(FrontendError) as error:
        from_text(text, "model.py")
    assert message in str(error.value) and "\n" not in str(error.value)
