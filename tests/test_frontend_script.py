"""TVMScript files: what is read, and what is never evaluated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.frontend import FrontendError
from opinfo.frontend.from_script import from_text

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
    ("line", "told"),
    [
        ("y = open('/etc/passwd')", "'open'"),
        ("y = eval('1')", "'eval'"),
        ("y = __import__('os')", "'__import__'"),
        ("y = x.__class__", "'.__class__'"),
        ("y = x._move", "'._move'"),
        ("y = T", "'T' without an attribute"),
        ("y = R.nn", "'R.nn' without an attribute"),
        ("y = R.nn.nn.relu(x)", "module 'R.nn.nn'"),
        ("y = T.entry.inspect.os.system('true')", "module 'T.entry'"),
        ("y = R.emit_te(x)", "'.emit_te'"),
        ("import os", "'import os'"),
        ("y = [z for z in ().__class__.__bases__]", "'.__"),
    ],
)
def test_code_is_refused(line: str, told: str) -> None:
    text = f"{HEAD}@R.function\ndef main(x: R.Tensor((4,), 'float32')):\n    {line}\n    return x\n"
    with pytest.raises(FrontendError) as error:
        from_text(text, "model.py")
    assert str(error.value).startswith("model.py:") and told in str(error.value)


@pytest.mark.parametrize("place", ["decorator", "annotation", "default"])
def test_code_outside_the_body_is_refused(place: str, tmp_path: Path) -> None:
    touch = f"open('{tmp_path / 'touched'}', 'w')"
    text = {
        "decorator": f"@R.function({touch})\ndef main(x: R.Tensor((4,))):\n    return x\n",
        "annotation": f"@R.function\ndef main(x: R.Tensor(({touch},))):\n    return x\n",
        "default": f"@R.function\ndef main(x: R.Tensor((4,)) = {touch}):\n    return x\n",
    }[place]
    with pytest.raises(FrontendError, match="'open' is not allowed"):
        from_text(HEAD + text)
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import os\nos.system('true')\n", ":2: Expr is not TVMScript"),
        ("def f():\n    pass\n", ":1: undecorated definition is not TVMScript"),
        ("N = print(1)\n", ":1: neither literal nor metadata"),
        (HEAD + RELU.replace("nn.relu", "nn.rel"), "has no attribute 'rel'"),
        (HEAD + RELU.replace("relu(x)", "relu(y)"), "Undefined variable: y"),
    ],
)
def test_errors_name_the_place(text: str, told: str) -> None:
    with pytest.raises(FrontendError) as error:
        from_text(text, "model.py")
    assert told in str(error.value) and "\n" not in str(error.value)
