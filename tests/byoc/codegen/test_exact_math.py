"""TVM's flag for coarse arithmetic is dropped while kernels are compiled, and only then."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

import pytest

from opinfo.byoc.backends.nvidia.nvrtc.exact_math import exact_math

SWITCH = "TVM_CUDA_NVCC_NO_FAST_MATH"


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The options that a replacement of NVRTC was given."""
    seen: list[list[bytes]] = []

    def compiling(program: Any, count: int, options: list[bytes]) -> tuple[int]:
        assert count == len(options)
        seen.append(options)
        return (0,)

    nvrtc = types.ModuleType("cuda.bindings.nvrtc")
    nvrtc.nvrtcCompileProgram = compiling  # type: ignore[attr-defined]
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", nvrtc)
    return seen


def compile_with_fast_math() -> None:
    options = [b"-arch=sm_90", b"--use_fast_math", b"-U__CUDA_NO_HALF_OPERATORS__"]
    sys.modules["cuda.bindings.nvrtc"].nvrtcCompileProgram(None, len(options), options)


def test_nvrtc_does_not_get_the_flag(given: list[list[bytes]]) -> None:
    with exact_math(), exact_math():
        compile_with_fast_math()
    compile_with_fast_math()
    assert given[0] == [b"-arch=sm_90", b"-U__CUDA_NO_HALF_OPERATORS__"]
    assert b"--use_fast_math" in given[1]


@pytest.mark.parametrize("before", [None, "0"])
def test_nvcc_gets_the_switch_inside_the_block_only(
    before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    if before is not None:
        monkeypatch.setenv(SWITCH, before)
    with pytest.raises(KeyError), exact_math():
        assert os.environ[SWITCH] == "1"
        raise KeyError
    assert os.environ.get(SWITCH) == before
