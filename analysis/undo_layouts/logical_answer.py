"""The answer about logical buffers as one about the buffers that the PrimFunc has.

conv2d over NCHW, packed in memory       conv2d(…, data_layout="NCHW4c")     the op expresses it
tan over (i, j), transposed in memory    no attribute of tan says so         LayoutNormalised
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import relax

from ..lifting.effects.tensor_expression import TensorExpression
from ..proposal.build import NotBuilt, typed_call
from ..proposal.proposal import Proposal
from ..results.buffer_layout import BufferLayout
from ..results.op_info import STRINGS, LayoutNormalised, OpInfo
from ..support.tvm_compat import sym
from ..terms.term import TensorVar
from . import LogicalForm


def normalised(info: OpInfo, relaid: LogicalForm) -> LayoutNormalised:
    """The op over logical buffers, and how the PrimFunc's buffers lie."""
    return LayoutNormalised(
        _noted(info, relaid),
        relaid.layouts(),
        tuple(relaid.name(position, logical) for position, logical in enumerate(info.layouts)),
    )


def _noted(info: OpInfo, relaid: LogicalForm) -> OpInfo:
    """With what is assumed of padding."""
    certificate = replace(
        info.certificate,
        exact=info.certificate.exact and not relaid.notes,
        assumptions=(*info.certificate.assumptions, *relaid.notes),
    )
    others = tuple(_noted(a, relaid) for a in info.alternatives)
    return replace(info, certificate=certificate, alternatives=others)


def expressed(found: LayoutNormalised, lifted: TensorExpression) -> OpInfo | None:
    """The op over the PrimFunc's own buffers, if its layout attributes say how all of them lie.

    So they do where each buffer has a layout string that an attribute takes, and Relax infers for
    the call on the PrimFunc's operands the type of the PrimFunc's result.
    """
    logical = found.logical
    attrs = dict(logical.attrs)
    out = [c.out.position for c in lifted.outputs]
    names = attrs.keys() & STRINGS.keys()
    if len(out) != 1 or not names:
        return None
    told: dict[int, str] = {}
    for key in names:
        place = STRINGS[key]
        k = out[0] if place is None else logical.operands[place]
        if not isinstance(k, int) or not _renamed(found.layouts[k], logical.layouts[k]):
            return None
        told[k] = attrs[key] = found.layouts[k]
    data = logical.operands[0]
    if out[0] not in told and isinstance(data, int) and found.layouts[out[0]] == told.get(data):
        told[out[0]] = found.layouts[out[0]]
    if not all(_says(k in told, b) for k, b in enumerate(found.buffers)):
        return None
    layouts = tuple(told.get(k, text) for k, text in enumerate(logical.layouts))
    others = tuple(_others(found, lifted))
    info = replace(logical, attrs=attrs, layouts=layouts, alternatives=others, relayout=found)
    return info if _typed(info, lifted, lifted.outputs[0].out) else None


def _says(named: bool, buffer: BufferLayout | None) -> bool:
    """Whether it is known how a buffer lies; the elements of padding are in no layout string."""
    return buffer is None or buffer.identity or (named and not buffer.padded)


def _others(found: LayoutNormalised, lifted: TensorExpression) -> Iterator[OpInfo]:
    """The alternatives whose attributes say it as well."""
    for other in found.logical.alternatives:
        if other.layouts == found.logical.layouts:
            info = expressed(replace(found, logical=other), lifted)
            if info is not None:
                yield info


def _renamed(physical: str, logical: str) -> bool:
    """Whether a string has all the axes of the usual one: TVM converts between such."""
    return bool(physical) and sorted(c for c in physical if c.isupper()) == sorted(logical)


def _typed(info: OpInfo, lifted: TensorExpression, out: TensorVar) -> bool:
    """Whether the call on the PrimFunc's operands is valid and has the PrimFunc's result."""
    try:
        p = Proposal(info.name, info.operands, info.attrs)
        call, wanted = typed_call(p, lifted, out)
    except NotBuilt:
        return False
    return _same_type(call.ty, wanted)


def _same_type(a: Any, b: Any) -> bool:
    if tvm_ffi.structural_equal(a, b):
        return True
    if not (isinstance(a, relax.TensorType) and isinstance(a.shape, relax.ShapeExpr)):
        return False
    one, two = list(a.shape.values), list(b.shape.values)
    prove = sym.Analyzer().can_prove_equal
    return str(a.dtype) == str(b.dtype) and len(one) == len(two) and all(map(prove, one, two))
