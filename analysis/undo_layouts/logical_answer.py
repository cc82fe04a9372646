"""From an answer over logical buffers to one over the PrimFunc's own buffers.

conv2d over NCHW, packed in memory       conv2d(…, data_layout="NCHW4c")     expressed by the op
tan over (i, j), transposed in memory    tan has no layout attribute         LayoutNormalised
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import relax

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.build import typed_call
from ..proposal.call_op import NotBuilt
from ..proposal.proposal import Proposal
from ..results.buffer_layout import BufferLayout
from ..results.op_info import STRINGS, LayoutNormalised, OpInfo
from ..support.tvm_compat import sym
from ..terms.term import TensorVar
from . import LogicalForm


def normalise(info: OpInfo, form: LogicalForm) -> LayoutNormalised:
    """Return the operator over logical buffers, with the layouts of the PrimFunc's buffers."""
    return LayoutNormalised(
        _noted(info, form),
        form.layouts(),
        tuple(form.name(position, logical) for position, logical in enumerate(info.layouts)),
    )


def _noted(info: OpInfo, form: LogicalForm) -> OpInfo:
    """The answer with the assumptions about padding."""
    certificate = replace(
        info.certificate,
        exact=info.certificate.exact and not form.notes,
        assumptions=(*info.certificate.assumptions, *form.notes),
    )
    alternatives = tuple(_noted(a, form) for a in info.alternatives)
    return replace(info, certificate=certificate, alternatives=alternatives)


def express_layouts(answer: LayoutNormalised, lifted: TensorExpression) -> OpInfo | None:
    """Return the operator over the PrimFunc's own buffers, if its layout attributes name all
    layouts.

    They do if each buffer has a layout string that an attribute accepts, and Relax infers, for the
    call on the PrimFunc's operands, the type of the PrimFunc's result.
    """
    logical = answer.logical
    attrs = dict(logical.attrs)
    out = [c.out.position for c in lifted.outputs]
    names = attrs.keys() & STRINGS.keys()
    if len(out) != 1 or not names:
        return None
    strings: dict[int, str] = {}
    for key in names:
        place = STRINGS[key]
        position = out[0] if place is None else logical.operands[place]
        if not isinstance(position, int) or not _renamed(
            answer.layouts[position], logical.layouts[position]
        ):
            return None
        strings[position] = attrs[key] = answer.layouts[position]
    data = logical.operands[0]
    if (
        out[0] not in strings
        and isinstance(data, int)
        and answer.layouts[out[0]] == strings.get(data)
    ):
        strings[out[0]] = answer.layouts[out[0]]
    if not all(_layout_known(k in strings, b) for k, b in enumerate(answer.buffers)):
        return None
    layouts = tuple(strings.get(k, text) for k, text in enumerate(logical.layouts))
    alternatives = tuple(_alternatives(answer, lifted))
    info = replace(
        logical, attrs=attrs, layouts=layouts, alternatives=alternatives, relayout=answer
    )
    return info if _typed(info, lifted, lifted.outputs[0].out) else None


def _layout_known(named: bool, buffer: BufferLayout | None) -> bool:
    """Whether the layout of a buffer is known; no layout string describes padding."""
    return buffer is None or buffer.identity or (named and not buffer.padded)


def _alternatives(answer: LayoutNormalised, lifted: TensorExpression) -> Iterator[OpInfo]:
    """The alternatives whose attributes name the layouts as well."""
    for alternative in answer.logical.alternatives:
        if alternative.layouts == answer.logical.layouts:
            info = express_layouts(replace(answer, logical=alternative), lifted)
            if info is not None:
                yield info


def _renamed(physical: str, logical: str) -> bool:
    """Whether both strings have the same axes, so that TVM converts between them."""
    return bool(physical) and sorted(c for c in physical if c.isupper()) == sorted(logical)


def _typed(info: OpInfo, lifted: TensorExpression, out: TensorVar) -> bool:
    """Whether the call on the PrimFunc's operands is valid and has the PrimFunc's result type."""
    try:
        proposal = Proposal(info.name, info.operands, info.attrs)
        call, expected = typed_call(proposal, lifted, out)
    except NotBuilt:
        return False
    return _same_type(call.ty, expected)


def _same_type(a: Any, b: Any) -> bool:
    if tvm_ffi.structural_equal(a, b):
        return True
    if not (isinstance(a, relax.TensorType) and isinstance(a.shape, relax.ShapeExpr)):
        return False
    a_extents, b_extents = list(a.shape.values), list(b.shape.values)
    prove = sym.Analyzer().can_prove_equal
    return (
        str(a.dtype) == str(b.dtype)
        and len(a_extents) == len(b_extents)
        and all(map(prove, a_extents, b_extents))
    )
