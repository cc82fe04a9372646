"""What differs between the versions of TVM that opinfo runs on, under the names of TVM 0.27.

TVM 0.26 keeps expressions of tensors and blocks in ``tirx``, its arithmetic in ``arith``, and
calls the buffer of an access ``buffer``, which 0.27 calls ``source``.
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
    "TensorLoad",
    "TensorRegion",
    "access_key",
    "array_of",
    "buffers_of",
    "is_predicated",
    "require_complete",
    "same_access",
    "source_of",
    "sym",
    "type_key",
]

#: Major and minor number of the installed TVM.
VERSION: tuple[int, int] = tuple(map(int, tvm.__version__.split(".")[:2]))  # type: ignore[assignment]
#: The oldest version that everything runs on; analysis, planning and raising run on older ones.
COMPLETE = (0, 27)

if VERSION >= (0, 27):
    from tvm import sym
    from tvm.ir import GenericConst, TensorLoad, TensorRegion
    from tvm.s_tir import MatchBufferRegion, SBlock, SBlockRealize
    from tvm.s_tir.transform import StmtSimplify

    #: The buffer of a :data:`TensorLoad` or :data:`TensorRegion`.
    source_of: Any = attrgetter("source")
    #: The array of a :data:`GenericConst`.
    array_of: Any = attrgetter("value")
else:
    from tvm import arith as sym
    from tvm.relax import Constant as GenericConst
    from tvm.tirx import BufferLoad as TensorLoad
    from tvm.tirx import BufferRegion as TensorRegion
    from tvm.tirx import MatchBufferRegion, SBlock, SBlockRealize
    from tvm.tirx.transform import StmtSimplify

    source_of = attrgetter("buffer")
    array_of = attrgetter("data")

#: Names of the kinds of node whose names differ, for tables by ``type(node).__name__``.
TENSOR_LOAD: str = TensorLoad.__name__
_PREDICATES = VERSION < (0, 27)


def type_key(kind: Any) -> str:
    """The name of a kind of node in what `tvm.ir.save_json` writes."""
    return str(kind.__tvm_ffi_type_info__.type_key)


def is_predicated(access: Any) -> bool:
    """Whether a load or store happens only where a predicate holds; 0.27 has none of these."""
    return _PREDICATES and access.predicate is not None


def buffers_of(e: Any) -> list[Any]:
    """The buffers of the accesses in an expression or region, in their order."""
    found: list[Any] = []
    note = (TensorLoad, TensorRegion)
    tvm_ffi.structural_walk(e, [(kind, lambda x: found.append(source_of(x))) for kind in note])
    return found


def same_access(a: Any, b: Any) -> bool:
    """Whether two accesses, or tuples of indices, are of the same elements of the same buffers.

    To structural equality outside a function, buffers of regions, and in 0.26 those of loads, are
    definitions: any of one type will do.
    """
    if not tvm_ffi.structural_equal(a, b):
        return False
    return all(x.same_as(y) for x, y in zip(buffers_of(a), buffers_of(b), strict=True))


def access_key(e: Any) -> tuple[int, ...]:
    """A key that accesses have in common where :func:`same_access` holds, while both live."""
    return (tvm_ffi.structural_hash(e), *(b.__chandle__() for b in buffers_of(e)))


def require_complete(part: str) -> None:
    """Refuse a part of opinfo that the installed TVM is too old for.

    Raises:
        ImportError: the TVM is older than `COMPLETE`; its `name` is "tvm".
    """
    if VERSION < COMPLETE:
        least = ".".join(map(str, COMPLETE))
        raise ImportError(
            f"{part} needs apache-tvm >= {least}, got {tvm.__version__}: upgrade apache-tvm "
            "(analysis, inspect, layout planning and RaiseOps run on this one, too)",
            name="tvm",
        )
