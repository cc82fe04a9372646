"""Constants without elements, which TVM's files cannot hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import opinfo
from opinfo.analysis.support.ir.empty_constants import is_unreadable
from opinfo.frontend import FrontendError
from opinfo.frontend.checks.normalise_module import tidy


def _module(shape: tuple[int, ...], build: Any) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(build(x)))
        builder.emit_func_output(result)
    return builder.get()


def _empty(*shape: int) -> Any:
    return relax.const(np.zeros(shape, "float32"))


@pytest.mark.parametrize("shape", [(0,), (2,), (0, 3), (1, 0), (2, 3, 0), (0, 0), ()])
def test_which_constants_tvm_cannot_load(shape: tuple[int, ...]) -> None:
    text = tvm.ir.save_json(_empty(*shape))
    if is_unreadable(shape):
        with pytest.raises(Exception, match="Invalid DLTensor"):
            tvm.ir.load_json(text)
    else:
        assert tvm.ir.load_json(text).ty == _empty(*shape).ty


def test_a_concatenation_drops_constants_without_elements() -> None:
    before = _module((1, 2, 3), lambda x: relax.op.concat((x, _empty(1, 0, 3), x), 1))
    after = _module((1, 2, 3), lambda x: relax.op.concat((x, x), 1))
    tvm.ir.assert_structural_equal(tidy(before), after)


def test_an_empty_constant_that_stays_is_an_operator() -> None:
    before = _module((1, 0, 3), lambda x: relax.op.add(x, _empty(1, 0, 3)))
    mod = tidy(before)
    tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(mod)), mod)
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    calls = [str(v.op.name) for v in values if isinstance(v, relax.Call)]
    assert calls == ["relax.zeros", "relax.add"]


def test_a_library_with_an_empty_constant_loads() -> None:
    mod = _module((1, 0, 3), lambda x: relax.op.concat((x, relax.op.zeros((1, 0, 3), "float32")),
                                                       2))  # fmt: skip
    result = opinfo.compile(mod, race=False).run(np.zeros((1, 0, 3), "float32"))
    assert (result.shape, result.dtype) == ((1, 0, 6), np.dtype("float32"))


def test_a_file_with_an_empty_constant_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(tvm.ir.save_json(_module((1, 3), lambda x: relax.op.concat((x, _empty(1, 0)),
                                                                               1))))  # fmt: skip
    with pytest.raises(FrontendError, match=r"m\.json: .*a tensor of shape \(1, 0\)"):
        opinfo.load(path)
