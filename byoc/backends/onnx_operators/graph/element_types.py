"""Dtypes of regions in ONNX and in DLPack."""

from __future__ import annotations

#: ONNX's numbers of element types, by TVM's name.
ELEMENT_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9,
                 "float16": 10}  # fmt: skip
#: DLPack's type codes and bits. TVM may also call a bool an unsigned integer of 8 bits.
DLPACK = {"float32": (2, 32), "uint8": (1, 8), "int8": (0, 8), "int32": (0, 32),
          "int64": (0, 64), "bool": (6, 8), "float16": (2, 16)}  # fmt: skip
#: What else a file may have as its inputs and results.
WIDER = {"float64": (2, 64), "int16": (0, 16), "uint16": (1, 16), "uint32": (1, 32),
         "uint64": (1, 64)}  # fmt: skip
#: What has no float16.
SINGLE = ("float32",)
FLOAT = ("float32", "float16")
#: Dtypes for which ONNX has arithmetic.
NUMBERS = (*FLOAT, "int32", "int64")
SMALL = ("int8", "uint8")
#: Dtypes that operators accept that only move elements.
ALL = tuple(ELEMENT_TYPES)
