"""What TVM makes of vectors: it computes with vectors of indices where it finds no vector."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import gpu_scheduled

from .gpu_cases import TARGET, check, kernel_of, nn, op, prim_func

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


def test_a_leaky_relu_of_several_axes_moves_vectors() -> None:
    """Its condition differs by lane, and its index is a quotient of the flat one."""
    func = prim_func(lambda e, x: e(nn.leakyrelu(x, 0.1)), (2, 112, 112, 64))
    text = kernel_of(func).script()
    assert text.count("T.vectorized(T.int64(8))") == 2, text
    small = prim_func(lambda e, x: e(nn.leakyrelu(x, 0.1)), (2, 7, 7, 64))
    check(small, kernel_of(small))


def test_a_load_that_a_condition_guards_is_not_moved_before_it() -> None:
    """x[i + 1] exists only where i < 15."""

    @T.prim_func(s_tir=True)
    def func(x: T.Buffer((16,), "float16"), y: T.Buffer((16,), "float16")) -> None:
        T.func_attr({"tirx.noalias": True})
        for i in T.grid(16):
            with T.sblock("y"):
                v = T.axis.remap("S", [i])
                y[v] = T.Select(T.And(v < 15, x[v + 1] > T.float16(0)), T.float16(1), T.float16(2))

    kernel = kernel_of(func)
    check(func, kernel)
    assert "T.vectorized" not in kernel.script().partition("x[")[0]
