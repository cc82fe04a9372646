"""Values in JSON of IR that TVM reads without a check: numbers, dtypes, devices, tensors, names."""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import tvm
import tvm_ffi

from ....analysis.registry.registry import load_all

#: TVM functions that a type may name; type inference calls them.
INFERENCE = {"tvm.relax.type.infer_by_ty_args", "tvm.relax.type.infer_view_ty"}
_INT64 = range(-(2**63), 2**63)
#: Header of a tensor: magic, reserved, device, rank, dtype; extents, length and data follow.
_TENSOR = struct.Struct("<QQiiiBBH")
_MAGIC = 0xDD5E40F096B4A13F


def _is_int(value: Any) -> bool:
    return type(value) is int and value in _INT64


def _is_float(value: Any) -> bool:
    return type(value) in (int, float)


def _is_dtype(value: Any) -> bool:
    """Return whether a value is a dtype that TVM accepts."""
    try:
        return isinstance(value, str) and len(value) < 40 and bool(tvm_ffi.dtype(value))
    except Exception:  # the parser of dtypes raises various types
        return False


def _is_device(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_int, value))


def _is_tensor(value: Any) -> bool:
    """Return whether a value is a CPU tensor whose length fits its shape and dtype."""
    try:
        raw = base64.b64decode(value, validate=True)
        magic, _, device, number, rank, _, bits, lanes = _TENSOR.unpack_from(raw)
        *extents, length = struct.unpack_from(f"<{rank + 1}q", raw, _TENSOR.size)
    except (TypeError, ValueError, binascii.Error, struct.error):
        return False
    stored = len(raw) - _TENSOR.size - 8 * (rank + 1)
    size = math.prod(extents) * ((bits * lanes + 7) // 8)
    usual = magic == _MAGIC and (device, number) == (1, 0) and min(extents, default=0) >= 0
    packed = bits * lanes >= 8 or (math.prod(extents) * bits * lanes + 7) // 8
    return usual and rank >= 0 and length == stored and (size == stored or packed == stored)


def tensor_extents(value: str) -> tuple[int, ...]:
    """Return the shape of a tensor that was checked; only the text of the shape is decoded."""
    rank = _TENSOR.unpack_from(_start(value, _TENSOR.size))[4]
    raw = _start(value, _TENSOR.size + 8 * rank)
    return struct.unpack_from(f"<{rank}q", raw, _TENSOR.size)


def _start(value: str, count: int) -> bytes:
    """Return at least the first bytes of what a text in base64 stands for."""
    return base64.b64decode(value[: (count + 2) // 3 * 4])


def _is_bigint(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 100


LEAVES: dict[str, Callable[[Any], bool]] = {
    "None": lambda v: v is None,
    "bool": lambda v: type(v) is bool,
    "int": _is_int,
    "float": _is_float,
    "DataType": _is_dtype,
    "Device": _is_device,
    "ffi.String": lambda v: isinstance(v, str),
    "ffi.Shape": lambda v: isinstance(v, list) and all(map(_is_int, v)),
    "ffi.BigInt": _is_bigint,
    "ffi.Tensor": _is_tensor,
}


INLINE = {1: _is_int, 2: lambda v: type(v) is bool, 3: _is_float, 5: _is_dtype, 6: _is_device}


@cache
def _operators() -> frozenset[str]:
    return frozenset(map(str, tvm.ir.Op.list_op_names()))


def _registered(name: str) -> bool:
    """Load the installed recognisers; return whether one registers this operator."""
    load_all()
    return name in map(str, tvm.ir.Op.list_op_names())


@cache
def _kinds() -> frozenset[str]:
    return frozenset(map(str, tvm.target.Target.list_kinds()))


#: What to do about an unknown name.
REMEDIES = {
    "ir.Op": "; install the package that registers it, with an entry point of opinfo.recognisers"
}


#: Types whose data is a name that TVM looks up.
NAMED: dict[str, Callable[[str], bool]] = {
    "ir.Op": lambda name: name in _operators() or _registered(name),
    "ir.EnvFunc": lambda name: name in INFERENCE,
    "ir.SourceName": lambda name: True,
    "target.TargetKind": lambda name: name in _kinds(),
    "tirx.Axis": lambda name: name.isidentifier() and len(name) < 40,
}
