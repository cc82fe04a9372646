"""What TVM makes of vectors: it computes with vectors of indices where it finds no vector."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx

from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled

from .gpu_cases import TARGET, check, op, prim_func

#: The input and the result of a reshape of a few vectors, which one block of threads copies.
RESHAPES = [((1, 8, 12, 12), (8, 12, 12)), ((3, 20, 4), (12, 20)), ((16, 6, 9), (6, 144))]


def lowered(func: Any) -> str:
    """The code of a kernel, as TVM writes CUDA from."""
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    mod = tirx.transform.BindTarget(TARGET.with_host("llvm"))(mod)
    with TARGET:
        both: Any = tirx.get_default_tir_pipeline(TARGET)[0](mod)
    _, kernel = str(both.script()).split("def main_kernel")
    return kernel.partition("def main(")[0]


@pytest.mark.parametrize(("shape", "result"), RESHAPES)
def test_no_index_is_a_vector_of_eight_integers(
    shape: tuple[int, ...], result: tuple[int, ...]
) -> None:
    """CUDA has no such type: the code of all kernels of a model would not compile."""
    func = prim_func(lambda e, x: e(op.reshape(x, result)), shape)
    kernel = gpu_scheduled(func)
    check(func, kernel)
    code = lowered(kernel)
    assert "T_reshape[" in code and "Broadcast" not in code, code
