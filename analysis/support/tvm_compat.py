"""Differences between the supported versions of TVM, under the names of TVM 0.27.

TVM 0.26 has expressions of tensors and blocks in ``tirx``, its arithmetic in ``arith``, and the
buffer of an access under ``buffer``, which is ``source`` in 0.27.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import tvm
import tvm_ffi

__all__ = [
    "COMPLETE",
    "TENSOR_LOAD",
    "VERSION",
    "GenericConst",
    "MatchBufferRegion",
    "SBlock",
    "SBlockRealize",
    "StmtSimplify",
    "StringImm",
    "TensorLoad",
    "TensorRegion",
    "access_key",
    "array_of",
    "is_predicated",
    "require_complete",
    "same_access",
    "source_of",
    "sym",
    "type_key",
    "with_array",
]

#: Major and minor number of the installed TVM.
VERSION: tuple[int, int] = tuple(map(int, tvm.__version__.split(".")[:2]))  # type: ignore[assignment]
#: The oldest version with all features; analysis, planning and raising run on older ones.
COMPLETE = (0, 27)

if VERSION >= (0, 27):
    from tvm import sym
    from tvm.ir import GenericConst, StringImm, TensorLoad, TensorRegion
    from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize
    from tvm.s_tir.transform import StmtSimplify

    #: The buffer of a :data:`TensorLoad` or :data:`TensorRegion`.
    source_of: Any = attrgetter("source")
    #: The array of a :data:`GenericConst`.
    array_of: Any = attrgetter("value")
else:
    from tvm import arith as sym
    from tvm.relax import Constant as GenericConst
    from tvm.relax import StringImm
    from tvm.tirx import BufferLoad as TensorLoad
    from tvm.tirx import BufferRegion as TensorRegion
    from tvm.tirx import MatchBufferRegion, SBlock, SBlockRealize
    from tvm.tirx.transform import StmtSimplify

    source_of = attrgetter("buffer")
    array_of = attrgetter("data")

#: The names of node kinds that differ, for tables by ``type(node).__name__``.
TENSOR_LOAD: str = TensorLoad.__name__
_PREDICATES = VERSION < (0, 27)


def type_key(kind: Any) -> str:
    """Return the name of a node kind in the output of `tvm.ir.save_json`."""
    return str(kind.__tvm_ffi_type_info__.type_key)


def is_predicated(access: Any) -> bool:
    """Return whether a load or store happens under a predicate; never so in 0.27."""
    return _PREDICATES and access.predicate is not None


def same_access(a: Any, b: Any) -> bool:
    """Return whether two accesses, or tuples of indices, address the same elements."""
    if not tvm_ffi.structural_equal(a, b):
        return False
    pairs = zip(_defined_buffers(a), _defined_buffers(b), strict=True)
    return all(x.same_as(y) for x, y in pairs)


def access_key(expr: Any) -> tuple[int, ...]:
    """Return a key that is equal for accesses with :func:`same_access`, while both exist."""
    return (tvm_ffi.structural_hash(expr), *(b.__chandle__() for b in _defined_buffers(expr)))


def _defined_buffers(expr: Any) -> list[Any]:
    """Return the buffers in an expression or region that structural equality takes for definitions.

    To structural equality outside a function, all definitions of one type are equal. Buffers of
    regions are definitions, and in 0.26 those of loads.
    """
    if VERSION >= (0, 27):
        return [source_of(expr)] if isinstance(expr, TensorRegion) else []
    buffers: list[Any] = []
    note = (TensorLoad, TensorRegion)
    tvm_ffi.structural_walk(expr, [(kind, lambda x: buffers.append(source_of(x))) for kind in note])
    return buffers


def with_array(const: Any, array: Any) -> Any | None:
    """Return a constant with another array, of the same type; None before TVM 0.27."""
    return GenericConst(array, const.ty, const.span) if VERSION >= (0, 27) else None


def require_complete(part: str) -> None:
    """Refuse a feature for which the installed TVM is too old.

    Raises:
        ImportError: TVM is older than `COMPLETE`; the error's `name` is "tvm".
    """
    if VERSION < COMPLETE:
        least = ".".join(map(str, COMPLETE))
        raise ImportError(
            f"{part} needs apache-tvm >= {least}, got {tvm.__version__}: upgrade apache-tvm "
            "(analysis, inspect, layout planning and RaiseOps also run on this version)",
            name="tvm",
        )
