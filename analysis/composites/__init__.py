"""Composites: operators of the project's own, each defined by Relax operators.

A composite is registered with TVM as any operator. Its type, its lowering to one PrimFunc, its
constructor and its documentation come from one Python function, the definition.
"""

from .attention import grouped_attention, merge_attention_states
from .defining.composite import composite
from .gated import gated_activation
from .grouped import group_dequantize, group_quantize
from .norms import add_rms_norm
from .page_copies import copy_page, move_in_pages, read_from_pages
from .positions.long_rotary import long_rotary_embedding
from .positions.rotary import apply_rotary_embedding, rotary_embedding
from .products import transposed_matmul
from .routing import expert_indptr, expert_mask, expert_order
from .sampling import chunked_logsumexp, softmax_from_chunks
from .scattered import append_to_pages, apply_penalty, apply_token_bitmask, index_update
from .token_choice import sample_from_sorted, top_p_renormalize, top_p_top_k_sum

__all__ = [
    "add_rms_norm",
    "append_to_pages",
    "apply_penalty",
    "apply_rotary_embedding",
    "apply_token_bitmask",
    "chunked_logsumexp",
    "composite",
    "copy_page",
    "expert_indptr",
    "expert_mask",
    "expert_order",
    "gated_activation",
    "group_dequantize",
    "group_quantize",
    "grouped_attention",
    "index_update",
    "long_rotary_embedding",
    "merge_attention_states",
    "move_in_pages",
    "read_from_pages",
    "rotary_embedding",
    "sample_from_sorted",
    "softmax_from_chunks",
    "top_p_renormalize",
    "top_p_top_k_sum",
    "transposed_matmul",
]
