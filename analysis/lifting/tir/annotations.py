"""Annotations that do not change what a program computes; all others are refused.

An annotation can mean anything to a pass of TVM: ``pragma_debug_skip_region`` drops its region,
``pragma_import_llvm`` links other code, ``hand_threaded`` removes the barriers of a kernel,
``software_pipeline_order`` moves statements. So the neutral keys are listed. Each is neutral
because the passes that read it only unroll, vectorise or partition a loop, place or align memory or
guide a search for schedules, or because no pass reads it and lowering drops it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm_ffi import _ffi_api

from .unliftable import Unliftable

#: Keys for unrolling, vectorising and splitting a loop.
_PRAGMAS = frozenset(
    {
        "disable_unroll",
        "pragma_auto_unroll_max_step",
        "pragma_loop_partition_hint",
        "pragma_scope",
        "pragma_unroll",
        "pragma_unroll_explicit",
        "pragma_vectorize",
    }
)

#: Keys that guide the schedule search; not ``layout_rewrite_preproc``, whose block TVM drops.
_SEARCH = frozenset(
    f"meta_schedule.{key}"
    for key in (
        "auto_tensorize",
        "auto_tensorize_init",
        "cache_type",
        "cooperative_fetch",
        "inline_rule",
        "parallel",
        "random_compute_producer",
        "thread_extent_high_inclusive",
        "thread_extent_low_inclusive",
        "tiling_structure",
        "unroll_explicit",
        "unroll_implicit",
        "vectorize",
        "write_cache_level",
    )
)

#: Keys of tensor expressions for schedule rules, and of parsers and storage passes.
_BLOCKS = frozenset(
    {
        "axis",
        "buffer_dim_align",
        "const_matrix",
        "layout_free_buffers",
        "layout_free_placeholders",
        "schedule_rule",
        "tirx.script_parsing_detect_access",
        "workload",
    }
)

#: Keys for the placement of an allocation.
_ALLOCATIONS = frozenset({"buffer_data_alignment", "buffer_dim_align", "tirx.volatile"})

#: The address of an allocation; TVM's lowering of blocks writes an empty one if there is none.
_ADDRESS = "buffer_allocated_addr"

#: Neutral keys of ``AttrStmt``; those that bind threads are handled elsewhere.
NEUTRAL = {
    "For": _PRAGMAS | _SEARCH,
    "SBlock": _PRAGMAS | _SEARCH | _BLOCKS,
    "AllocBuffer": _ALLOCATIONS,
    "AttrStmt": _PRAGMAS,
}

_size, _size_of = _ffi_api.MapSize, _ffi_api.ArraySize


def check_annotations(node: Any, where: str) -> None:
    """Raise `Unliftable` for an annotation of a statement that is not known as neutral."""
    annotations = node.annotations
    if annotations is not None and _size(annotations):
        keys = [k for k, v in annotations.items() if k != _ADDRESS or _size_of(v)]
        check_keys(type(node).__name__, keys, where)


def check_keys(kind: str, keys: Iterable[Any], where: str) -> None:
    """Raise `Unliftable` for a key that is not known as neutral for a kind of statement."""
    for key in sorted(map(str, keys)):
        if key not in NEUTRAL[kind]:
            raise Unliftable(f"unsupported annotation {key}", f"{kind} {where}".strip())


def check_layout(ty: Any, name: str) -> None:
    """Raise `Unliftable` for a buffer whose elements are not where its strides imply."""
    if ty.layout is not None and not ty.layout.is_trivial():
        raise Unliftable("a buffer with a non-trivial layout is not supported", name)
    if len(ty.allocated_addr):
        raise Unliftable("a buffer at a fixed address is not supported", name)
