"""Outputs of trial runs keep their addresses, not their memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tvm

from opinfo.verify.emptied import LEAST, emptied
from opinfo.verify.trial_runs import _called

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
    output, data = ones(LEAST), ones(8)
    call = _called(lambda _: output, [data], tmp_path / "outputs")
    saved = tvm.runtime.load_param_dict_from_file(str(tmp_path / "outputs"))
    assert call is not None and saved["0"].numpy().all() and not output.numpy()[4096:-4096].any()
