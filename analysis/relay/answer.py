"""The answer about logical buffers as one about the buffers that the PrimFunc has."""

from __future__ import annotations

from dataclasses import replace

from ..op_info import STRINGS, OpInfo, Relayout
from . import Relaid


def physical(info: OpInfo, relaid: Relaid) -> OpInfo:
    """The same op with the layouts of the PrimFunc's buffers."""
    layouts = tuple(relaid.name(position, logical) for position, logical in enumerate(info.layouts))
    out = relaid.lifted.outputs[0].out.position
    attrs = dict(info.attrs)
    for key in attrs.keys() & STRINGS.keys():
        operand = STRINGS[key]
        position = out if operand is None else info.operands[operand]
        assert isinstance(position, int)
        attrs[key] = layouts[position]
    certificate = replace(
        info.certificate,
        exact=info.certificate.exact and not relaid.notes,
        assumptions=(*info.certificate.assumptions, *relaid.notes),
    )
    return replace(
        info,
        attrs=attrs,
        layouts=layouts,
        relayout=Relayout(info.attrs, relaid.layouts()),
        certificate=certificate,
        alternatives=tuple(physical(a, relaid) for a in info.alternatives),
    )
