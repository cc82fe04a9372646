"""Instruction sets of the CPU that code is built for."""

from __future__ import annotations

import functools

from ...codegen.host_target import flags


@functools.cache
def has_bfloat16() -> bool:
    """Whether the CPU has instructions for products of bfloat16."""
    return not flags().isdisjoint(("avx512bf16", "amxbf16"))


@functools.cache
def has_int8() -> bool:
    """Whether the CPU has instructions that sum products of int8 in 32 bits."""
    return not flags().isdisjoint(("avx512vnni", "avxvnni", "amxint8"))
