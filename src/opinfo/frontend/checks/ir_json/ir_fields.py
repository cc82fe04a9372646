"""The fields of TVM's IR types, from its reflection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tvm_ffi import core

from ....analysis.support.tvm_compat import MatchBufferRegion, TensorRegion, type_key
from .json_values import INLINE

#: Base types of IR; derived types are included.
BASES = (
    "ir.Expr", "ir.Type", "ir.Attrs", "ir.GlobalInfo", "ir.Range", "ir.SourceMap", "ir.Source",
    "ir.SourceName", "ir.Span", "ir.IRModule", "ir.EnvFunc", "prim.CommReducer", "tirx.Stmt",
    "tirx.IterVar", "tirx.IndexMap", "tirx.Layout", "tirx.Iter", "tirx.Axis", "tirx.CommReducer",
    "te.CommReducer", "s_tir.SLayout", type_key(MatchBufferRegion), type_key(TensorRegion),
    "relax.expr.Binding",
    "relax.expr.BindingBlock", "relax.distributed.DeviceMesh", "relax.distributed.Placement",
    "relax.distributed.PlacementSpec", "target.Target", "target.TargetKind",
)  # fmt: skip
#: Nullable types that reflection does not mark as such.
NULLABLE = {"ir.Span", "ir.Attrs"}
#: Fields that TVM declares as any object but assumes to have a type.
_NARROWER = {
    ("tirx.IndexMap", "inverse_index_map"): {
        "type": "Optional", "args": [{"type": "tirx.IndexMap"}]
    },
}  # fmt: skip


@dataclass(frozen=True)
class IrField:
    """The type of a field, and the check of a value that is stored in place."""

    schema: dict[str, Any]
    inline: Callable[[Any], bool] | None  # None: the value is the index of a node


@cache
def fields_of(kind: str) -> dict[str, IrField] | None:
    """Return the fields of a type; None if it is not a type of IR."""
    if not {kind, *ancestors(kind)} & set(BASES):
        return None
    fields: dict[str, IrField] = {}
    info = _info(kind)
    while info is not None:
        for field in info.fields:
            schema = json.loads(field.metadata["type_schema"])
            schema = _NARROWER.get((kind, field.name), schema)
            fields.setdefault(
                field.name, IrField(schema, INLINE.get(field.field_static_type_index))
            )
        info = info.parent_type_info
    return fields


@cache
def ancestors(kind: str) -> frozenset[str]:
    """Return the types that a type is derived from."""
    info, keys = _info(kind), set()
    while info is not None and info.parent_type_info is not None:
        info = info.parent_type_info
        keys.add(str(info.type_key))
    return frozenset(keys)


def _info(kind: str) -> Any:
    """Return the reflection of a type; None if TVM does not know it."""
    try:
        core._object_type_key_to_index(kind)
        return core._lookup_or_register_type_info_from_type_key(kind)
    except Exception:  # unknown
        return None
