"""Dtypes in which torch computes: operands are promoted, half types compute in float32.

torch's CPU kernels read float16 and bfloat16, compute and add up in float32, and round the result
once. TVM computes in the dtype of its operands, so a sum of 1000 ones is 256 in bfloat16.

Before: `aten.mean(x: bfloat16)`; after: `astype(mean(astype(x, float32)), bfloat16)`. The operands
of products stay as they are, since their result has a dtype of its own:
`astype(matmul(x: bfloat16, w: bfloat16, out_dtype=float32), bfloat16)`.
"""

from __future__ import annotations

from typing import Any

from .arguments import operands

#: Operators that only move elements; they do not compute in any dtype.
MOVES = frozenset(
    "view reshape permute transpose t slice select expand unsqueeze squeeze clone alias detach "
    "index gather embedding index_select flip roll repeat split split_with_sizes unbind chunk "
    "copy _to_copy lift_fresh_copy constant_pad_nd pad full full_like zeros_like ones_like "
    "new_zeros new_ones empty_like pixel_shuffle pixel_unshuffle slice_scatter select_scatter "
    "as_strided contiguous narrow flatten unflatten tile reflection_pad1d reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d to type_as "
    "_assert_tensor_metadata unfold broadcast_to expand_as view_as reshape_as meshgrid "
    "diagonal diagonal_scatter".split()
)
#: Operators that join tensors: the operands are promoted, nothing is computed.
JOINS = frozenset({"cat", "concat", "stack", "where", "index_put", "scatter", "masked_fill"})
#: Operators that TVM cannot compute on truth values, and which do the same on 0 and 1.
_NUMERIC = frozenset("eq ne lt le gt ge add mul maximum minimum".split())
#: Products with `out_dtype`; the positions of the operands that are added to them.
PRODUCTS = {"mm": (), "bmm": (), "matmul": (), "addmm": (0,), "baddbmm": (0,), "linear": (2,),
            "convolution": (2,), "conv1d": (2,), "conv2d": (2,), "conv3d": (2,)}  # fmt: skip


def operand_types(node: Any) -> dict[Any, Any]:
    """Return the torch dtype for each operand of a node that must be cast before it is used."""
    import torch

    if not isinstance(node.target, torch._ops.OpOverload):
        return {}
    name = node.target._schema.name.partition("::")[2]
    wanted = _wanted(torch, name, node)
    return {a: d for a, d in wanted.items() if d is not None and d != a.meta["val"].dtype}


def _wanted(torch: Any, name: str, node: Any) -> dict[Any, Any]:
    tensors = list(operands(node))
    result = getattr(node.meta.get("val"), "dtype", None)
    if name in MOVES:
        return {}
    if name in JOINS:
        joined = [a for a in tensors if not (name == "where" and a is node.args[0])]
        indices = node.all_input_nodes if name in ("index_put", "scatter", "masked_fill") else []
        skipped = {a for a in indices if a is not node.args[0] and a is not node.args[-1]}
        return {a: result for a in joined if a not in skipped}
    if name in PRODUCTS:
        added = [node.args[k] for k in PRODUCTS[name] if k < len(node.args)]
        return {a: computed(torch, a.meta["val"].dtype) for a in added if a is not None}
    if torch.Tag.pointwise in node.target.tags and result is not None:
        dtype = compared(torch, node)
        if dtype == torch.bool and name in _NUMERIC:
            dtype = torch.uint8
        return {a: dtype for a in tensors}
    return {a: computed(torch, a.meta["val"].dtype) for a in tensors}


def computed(torch: Any, dtype: Any) -> Any:
    """Return the dtype in which torch computes on a dtype."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def compared(torch: Any, node: Any) -> Any:
    """Return the dtype in which an elementwise node computes: for comparisons, not its result's."""
    result = node.meta["val"].dtype
    if result != torch.bool:
        return computed(torch, result)
    values = [a.meta["val"] if hasattr(a, "meta") else a for a in node.args]
    first = values[0].dtype
    return computed(torch, torch.result_type(*values) if len(values) == 2 else first)
