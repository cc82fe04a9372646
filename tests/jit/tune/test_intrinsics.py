"""The tensor intrinsics of the CPU that candidates may use."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from opinfo.jit.tune.intrinsics import PACKAGE, only_for

from .tuning_bench import LLVM


def test_the_intrinsics_of_this_cpu_are_there_and_the_package_is_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = importlib.import_module("tvm.s_tir")
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)  # a test of GPUs may have imported it
    monkeypatch.delattr(parent, "tensor_intrin", raising=False)
    with only_for(LLVM):
        stand_in = importlib.import_module(PACKAGE)
        assert not hasattr(stand_in, "cuda")
        if f"{PACKAGE}.x86" in sys.modules:
            assert parent.TensorIntrin.get("dot_16x4_vnni") is not None
    assert PACKAGE not in sys.modules and not hasattr(parent, "tensor_intrin")
    assert importlib.util.find_spec(PACKAGE).origin.endswith("__init__.py")  # type: ignore[union-attr]
    with pytest.raises(KeyError), only_for(LLVM):
        raise KeyError
    assert PACKAGE not in sys.modules


def test_intrinsics_that_are_there_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    there = types.ModuleType(PACKAGE)
    monkeypatch.setitem(sys.modules, PACKAGE, there)
    with only_for(LLVM):
        assert sys.modules[PACKAGE] is there
    assert sys.modules[PACKAGE] is there
