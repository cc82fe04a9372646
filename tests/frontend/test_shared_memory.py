"""The reader writes into memory of its client, or answers through its pipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import opinfo
from opinfo.frontend.process import reader_client
from opinfo.frontend.process.shared_memory import SharedMemory, opened, written

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
PARTS = [b"line\n", np.arange(5, dtype="int32"), b"", np.zeros((0, 2), "float32")]
MESSAGE = b"line\n" + np.arange(5, dtype="int32").tobytes()


def test_a_message_arrives() -> None:
    memory = SharedMemory(1 << 40)  # it takes no space
    with opened((memory.path, memory.size)) as place:
        assert written(PARTS, place) == len(MESSAGE)
    content = memory.content(len(MESSAGE))
    memory.close()
    assert content[:] == MESSAGE and content.find(b"\n") == 4


def test_the_memory_does_not_shrink_under_the_client() -> None:
    memory = SharedMemory(1 << 20)
    other = os.open(memory.path, os.O_RDWR)
    content = memory.content(8)
    for size in (4, 16):
        with pytest.raises(PermissionError):
            os.ftruncate(other, size)
    assert len(content) == 8
    os.close(other)
    memory.close()


def test_what_does_not_fit_is_not_written() -> None:
    memory = SharedMemory(len(MESSAGE) - 1)
    with opened((memory.path, memory.size)) as place:
        assert written(PARTS, place) is None and written([], place) is None
    memory.close()
    assert written(PARTS, None) is None


@pytest.mark.parametrize("place", [("/proc/1/fd/none", 8), ("/dev/null", 0), ("\0", 8)])
def test_memory_that_cannot_be_mapped_is_left_out(place: tuple[str, int]) -> None:
    with opened(place) as memory:
        assert memory is None


@pytest.mark.parametrize("text", ["", "0", "-1", "9", "1e3", "٣", "1" * 30, 3, None])
def test_a_length_is_checked(text: Any) -> None:
    with pytest.raises(opinfo.FrontendError, match="expected 1 to 8"):
        reader_client._length(text, 8)
    assert reader_client._length("8", 8) == 8


@pytest.mark.parametrize("memory", [True, False])
def test_a_model_is_read(memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.random.default_rng(0).standard_normal((1024, 1100)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 1024])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1100])],
        [numpy_helper.from_array(weights, "w")])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "m.onnx")  # fmt: skip
    if not memory:
        monkeypatch.setattr(reader_client, "SharedMemory", _none)
    mod = opinfo.load(tmp_path / "m.onnx")
    (call,) = [b.value for block in mod["main"].body.blocks for b in block.bindings
               if hasattr(b.value, "args")]  # fmt: skip
    np.testing.assert_array_equal(np.from_dlpack(call.args[1].value), weights)


def _none(_: int) -> SharedMemory:
    raise OSError("no such memory")
