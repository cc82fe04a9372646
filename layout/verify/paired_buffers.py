"""The buffers of two functions, paired as a rewriter claims, and what is wrong with a claim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm.tirx.buffer import is_buffer_var

from ...analysis.blocks.block_terms import SizeTerms
from ...analysis.blocks.definitions import BlockDefinition
from ...analysis.lifting.tir.node import NodeDict, items
from ...analysis.terms.term import (
    Int,
    TensorVar,
    Term,
    Var,
)
from ..model.extents import literal, physical
from ..model.layout import Layout

Index = tuple[Int, ...]


class Disagree(Exception):
    """The proof fails; the message says where."""


@dataclass(frozen=True)
class Correspondence:
    """How a rewriter claims two functions to correspond; the proof does not trust it.

    Attributes:
        buffers: Each old buffer with its new one and the layout. Missing buffers are inlined, as
            are the stages that define them.
        iterators: For each stage, the old iterators as terms over those of the new block: ``v0``,
            ``v1``, … in its order.
    """

    buffers: tuple[tuple[Any, Any, Layout], ...]
    iterators: tuple[Mapping[Var, Int], ...]


class PairedBuffers:
    """The buffers of both functions, with one tensor for each pair."""

    def __init__(
        self,
        func: Any,
        new: Any,
        correspondence: Correspondence,
        sizes: SizeTerms,
        new_sizes: SizeTerms,
    ) -> None:
        self.old, self.new = NodeDict[TensorVar](), NodeDict[tuple[TensorVar, Layout]]()
        self.tensors: list[TensorVar] = []
        for old_buffer, new_buffer, layout in correspondence.buffers:
            shape = sizes.shape(old_buffer)
            if (
                old_buffer in self.old
                or new_buffer in self.new
                or old_buffer.ty.dtype != new_buffer.ty.dtype
            ):
                raise Disagree(
                    f"{old_buffer.name} does not have exactly one new buffer of its dtype"
                )
            if physical(shape, layout) != new_sizes.shape(new_buffer):
                raise Disagree(f"{old_buffer.name} does not have the physical shape of {layout}")
            if layout.padded(literal(shape)):
                raise Disagree(f"{old_buffer.name} has padding")
            tensor = TensorVar(old_buffer.name, shape, str(old_buffer.ty.dtype))
            self.old[old_buffer], self.new[new_buffer] = tensor, (tensor, layout)
            self.tensors.append(tensor)
        pairs = list(zip(items(func.params), items(new.params), strict=True))
        for param, new_param in pairs:
            if not is_buffer_var(param):
                same = not is_buffer_var(new_param) and _value(sizes, param) is _value(
                    new_sizes, new_param
                )
            else:
                same = new_param in self.new and self.old[param] is self.new[new_param][0]
            if not same:
                raise Disagree(f"parameter {param.name} has a different counterpart")
        if any(b not in self.new for b in items(new.body.block.alloc_buffers)):
            raise Disagree("an inner buffer has no counterpart")
        self.inlined = [b for b in items(func.body.block.alloc_buffers) if b not in self.old]
        self.defined = NodeDict[BlockDefinition]()


def _value(sizes: SizeTerms, param: Any) -> Term | None:
    return sizes.env.get(param)
