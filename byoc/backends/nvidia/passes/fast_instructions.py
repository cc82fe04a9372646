"""Single instructions of a GPU as functions of float32 in TIR.

    opinfo_exp(x)      e^x to 2^-21 + |x| 2^-23 of it, also where it is subnormal
    opinfo_rcp(x)      1 / x to 2^-22 of it; subnormal numbers count as 0

CUDA's own fast functions scale subnormal numbers, which takes four instructions each time. The
exponential is the square of that of x / 2, which is not subnormal unless e^x is below 2^-252.
"""

from __future__ import annotations

from typing import Any

from tvm.backend.cuda.op import cuda_func_call

_EXP = """
__device__ __forceinline__ float opinfo_exp(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 0.7213475204444817f));
  return y * y;
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
    """e^x of a float32."""
    return cuda_func_call("opinfo_exp", x, source_code=_EXP, return_type="float32")


def divided(x: Any, y: Any) -> Any:
    """x / y of float32 numbers; y is 0, from 2^-126 to 2^126, or not finite."""
    return x * cuda_func_call("opinfo_rcp", y, source_code=_RCP, return_type="float32")
