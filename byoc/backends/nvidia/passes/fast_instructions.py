"""Single instructions of a GPU as functions of float32 in TIR.

    opinfo_exp(x)      e^x to 2^-22 + |x| 2^-23 of it; below 2^-126 it is 0
    opinfo_rcp(x)      1 / x to 2^-22 of it; subnormal numbers count as 0

CUDA's own fast functions scale subnormal numbers, which takes four instructions each time.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.backend.cuda.op import cuda_func_call

_EXP = """
__device__ __forceinline__ float opinfo_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
}
"""
_RCP = """
__device__ __forceinline__ float opinfo_rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
"""


def exp(x: Any) -> Any:
    """e^x of a float32, also where it is subnormal."""
    return tirx.call_pure_extern("float32", "__expf", x)


def flushed_exp(x: Any) -> Any:
    """e^x of a float32; what would be subnormal is 0."""
    return cuda_func_call("opinfo_exp", x, source_code=_EXP, return_type="float32")


def divided(x: Any, y: Any) -> Any:
    """x / y of float32 numbers; y is 0, from 2^-126 to 2^126, or not finite."""
    return x * cuda_func_call("opinfo_rcp", y, source_code=_RCP, return_type="float32")
