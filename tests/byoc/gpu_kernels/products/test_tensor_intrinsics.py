"""The import of TVM's intrinsics: its decorator sees the frames that `inspect.stack` lists."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx.script.parser import entry

from opinfo.byoc.backends.nvidia.tensor_intrinsics import short_stacks, stack


def test_frames_are_those_of_inspect() -> None:
    def listed() -> tuple[list[inspect.FrameInfo], list[inspect.FrameInfo]]:
        return stack(), inspect.stack()

    short, whole = listed()
    assert [f.frame for f in short] == [f.frame for f in whole]
    assert [f.function for f in short] == [f.function for f in whole]
    assert short[2].code_context == whole[2].code_context != None  # noqa: E711


def test_a_function_in_a_module_is_left_to_the_module() -> None:
    """The decorator finds the class by the line of its second caller."""
    with short_stacks():

        @I.ir_module
        class Module:
            @T.prim_func(s_tir=True)
            def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
                for i in range(4):
                    with T.sblock("y"):
                        v = T.axis.spatial(4, i)
                        y[v] = x[v] * T.float32(2)

    mod: Any = Module
    assert [gvar.name_hint for gvar, _ in mod.functions_items()] == ["double"]


def test_inspect_is_as_before_also_after_an_error() -> None:
    before = entry.inspect
    with pytest.raises(KeyError), short_stacks():
        assert entry.inspect is not before
        raise KeyError
    assert entry.inspect is before


def test_all_intrinsics_are_registered() -> None:
    code = """
from opinfo.byoc.backends.nvidia.tensor_intrinsics import import_tensor_intrinsics
import_tensor_intrinsics()
from tvm.s_tir import TensorIntrin
from tvm.s_tir.tensor_intrin import cuda
for name in (cuda.LDMATRIX_f16_A_INTRIN, cuda.MMA_f16f16f32_INTRIN, cuda.WMMA_FILL_16x16x16_F32_INTRIN):
    print(TensorIntrin.get(name).desc.body is not None)
"""  # noqa: E501
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True"] * 3
