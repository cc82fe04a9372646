"""The bindings of a function, with those inside conditionals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import relax


def nested_bindings(seq: Any) -> Iterator[Any]:
    """Yield the bindings of a `SeqExpr`, those of a branch before the conditional's."""
    for binding in (b for block in seq.blocks for b in block.bindings):
        if isinstance(binding.value, relax.If):
            yield from nested_bindings(binding.value.true_branch)
            yield from nested_bindings(binding.value.false_branch)
        yield binding
