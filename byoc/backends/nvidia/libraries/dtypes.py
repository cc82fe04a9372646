"""Dtypes of tensors, and their codes in CUDA and DLPack."""

from __future__ import annotations

from ....patterns.pattern import Condition, Node

#: DLPack's code and bits.
DLPACK = {"float32": (2, 32), "float16": (2, 16), "bfloat16": (4, 16)}
HALVES = ("float16", "bfloat16")
FLOAT8 = "float8_e4m3fn"
#: The same of dtypes that few patterns take: numbers of 8 bits, and their sums.
CODES = {"int8": (0, 8), "int32": (0, 32), FLOAT8: (10, 8)}
CUDA = {"float32": "CUDA_R_32F", "float16": "CUDA_R_16F", "bfloat16": "CUDA_R_16BF",
        "int8": "CUDA_R_8I", "int32": "CUDA_R_32I", FLOAT8: "CUDA_R_8F_E4M3"}  # fmt: skip


def typed(node: Node) -> str | None:
    """All tensors of the op have one dtype, which the libraries support."""
    dtypes = sorted({v.dtype for v in node.tensors})
    if len(dtypes) > 1 or dtypes[0] not in DLPACK:
        return f"the dtypes are {', '.join(dtypes)}, expected one of {', '.join(DLPACK)}"
    return None


def of(dtype: str) -> Condition:
    """Return a condition: all tensors have this dtype."""

    def check(node: Node) -> str | None:
        dtypes = sorted({v.dtype for v in node.tensors})
        return (
            None if dtypes == [dtype] else f"the dtypes are {', '.join(dtypes)}, expected {dtype}"
        )

    return check
