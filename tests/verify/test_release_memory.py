"""Outputs of trial runs keep their addresses, not their memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.testing.unoptimised import unoptimised
from opinfo.verify.release_memory import LEAST, emptied
from opinfo.verify.timing_process import _called
from opinfo.verify.trial_values import flat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux")


def ones(count: int) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.ones(count, "float32"))


def test_pages_are_given_back_and_are_zeros() -> None:
    tensor = ones(LEAST)
    count = emptied(tensor, [ones(8)])
    assert 4 * LEAST - 8192 <= count <= 4 * LEAST
    assert np.count_nonzero(tensor.numpy()) == (4 * LEAST - count) // 4


def test_inputs_and_small_tensors_stay() -> None:
    tensor, small = ones(LEAST), ones(8)
    assert emptied(tensor, [small, tensor]) == emptied(small, []) == 0
    assert tensor.numpy().all() and small.numpy().all()


def test_outputs_are_written_before_they_are_given_back(tmp_path: Path) -> None:
    outputs, data = [ones(LEAST), ones(LEAST)], ones(8)
    calls = iter(outputs)
    call = _called(lambda _: next(calls), [data], tmp_path / "outputs")
    saved = tvm.runtime.load_param_dict_from_file(str(tmp_path / "outputs"))
    assert call is not None and saved["0"].numpy().all()
    assert not any(output.numpy()[4096:-4096].any() for output in outputs)


def test_constants_that_a_library_returns_stay(tmp_path: Path) -> None:
    bb, side = relax.BlockBuilder(), 1024
    v = relax.Var("v", relax.TensorType((side, side), "float32"))
    c = relax.const(np.ones((side, side), "float32"))
    with bb.function("main", [v]):
        with bb.dataflow():
            total = bb.emit_output(relax.op.add(v, c))
        bb.emit_func_output(relax.Tuple([total, c]))
    main = relax.VirtualMachine(unoptimised(bb.get()), tvm.cpu())["main"]
    data = tvm.runtime.tensor(np.full((side, side), 2, "float32"))
    call = _called(main, [data], tmp_path / "outputs")
    assert call is not None
    later, constant = (x.numpy() for x in flat(call()))
    assert (later == 3).all() and (constant == 1).all()
