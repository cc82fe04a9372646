"""Steps of newer decoders of `transformers`: experts, state spaces beside attention, and others.

olmoe, granite_moe        experts; `granite_moe` has one fused matrix for gate and up
cohere, minicpm3, phi4    attention in other forms; `phi4` rotates by factors of long contexts
gemma3n                   layers that share keys and values, sparse activations
qwen2_vl, qwen3_vl        the part of a vision-language model that reads text
jamba, bamba, qwen3_next, lfm2      layers with a state beside layers of attention
rwkv                      a state only
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import transformers

from .torch_programs import Dim, Function, Program, model_of, token_ids

_SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 101,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
          "attn_implementation": "eager", "pad_token_id": 0, "bos_token_id": 1,
          "eos_token_id": 2}  # fmt: skip
_EXPERTS = {"num_experts_per_tok": 2, "experts_implementation": "grouped_mm"}
_MAMBA2 = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1,
           "mamba_chunk_size": 8}  # fmt: skip
_ROTATIONS = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
_LONG = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
         "short_factor": [1.0] * 6, "long_factor": [2.0] * 6,
         "original_max_position_embeddings": 16}  # fmt: skip
#: The class of each architecture, and its configuration.
HYBRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "olmoe": ("OlmoeForCausalLM", {**_SIZES, **_EXPERTS, "num_experts": 8}),
    "granite_moe": ("GraniteMoeForCausalLM", {**_SIZES, **_EXPERTS, "num_local_experts": 4}),
    "cohere": ("CohereForCausalLM", {**_SIZES, "use_qk_norm": True}),
    "phi4": ("Phi3ForCausalLM", {**_SIZES, "rope_parameters": _LONG,
                                 "original_max_position_embeddings": 16}),
    "minicpm3": ("MiniCPM3ForCausalLM", {
        **_SIZES, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "head_dim": 8,
        "qk_nope_head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4}),
    "gemma3n": ("Gemma3nForCausalLM", {
        **_SIZES, "num_hidden_layers": 4, "intermediate_size": [96] * 4, "head_dim": 16,
        "vocab_size_per_layer_input": 101, "hidden_size_per_layer_input": 8, "laurel_rank": 8,
        "altup_num_inputs": 2, "num_kv_shared_layers": 1, "sliding_window": 32,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "activation_sparsity_pattern": [0.9, 0.0, 0.0, 0.0]}),
    "qwen2_vl": ("Qwen2VLTextModel", {**_SIZES, "rope_parameters": _ROTATIONS}),
    "qwen3_vl": ("Qwen3VLTextModel", {**_SIZES, "head_dim": 16, "rope_parameters": _ROTATIONS}),
    "jamba": ("JambaForCausalLM", {
        **_SIZES, **_EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 8,
        "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 4, "mamba_dt_rank": 4,
        "use_mamba_kernels": False}),
    "bamba": ("BambaForCausalLM", {**_SIZES, **_MAMBA2, "attn_layer_indices": [1]}),
    "qwen3_next": ("Qwen3NextForCausalLM", {
        **_SIZES, **_EXPERTS, "head_dim": 16, "linear_num_key_heads": 2, "num_experts": 4,
        "layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 4,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32}),
    "lfm2": ("Lfm2ForCausalLM", {**_SIZES, "layer_types": ["conv", "full_attention"],
                                 "block_multiple_of": 32}),
    "rwkv": ("RwkvForCausalLM", {
        "vocab_size": 101, "context_length": 64, "hidden_size": 32, "num_hidden_layers": 2,
        "attention_hidden_size": 32, "intermediate_size": 64, "bos_token_id": 1,
        "eos_token_id": 2, "rescale_every": 0}),
}  # fmt: skip
#: Tokens of a step and before it; layers with a state make steps of one token.
_LENGTHS = ((3, 5), (1, 7), (6, 2), (1, 20))
#: What a layer of a cache may hold.
_HELD = ("keys", "values", "conv_states", "recurrent_states")


def hybrid_programs(architecture: str) -> Iterator[Program]:
    """Yield the programs of an architecture."""
    build = _of_rwkv if architecture == "rwkv" else _of_caches
    for program in build(model_of(*HYBRIDS[architecture])):
        yield Program(f"{architecture}.{program.name}", program.module, program.shapes,
                      program.arguments)  # fmt: skip


def _of_caches(model: Any) -> Iterator[Program]:
    """A step for any number of tokens after any number, or for one if layers have a state."""
    empty = transformers.DynamicCache(config=model.config).layers
    states = any(hasattr(layer, "update_conv_state") for layer in empty)

    def step(model: Any, ids: torch.Tensor, past: Any) -> Any:
        cache = transformers.DynamicCache(config=model.config)
        for layer, values in zip(cache.layers, past, strict=True):
            _fill(layer, values)
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        return out[0], [_held(layer) for layer in out.past_key_values.layers]

    def past(count: int) -> Any:
        with torch.no_grad():
            out = model(input_ids=token_ids(count), use_cache=True)
        return [_held(layer) for layer in out.past_key_values.layers]

    runs = [(token_ids(1 if states else new), past(old)) for new, old in _LENGTHS]
    shapes = [[{2: Dim.DYNAMIC} if name in ("keys", "values") else {} for name in _names(layer)]
              for layer in _filled(model, runs[0][1])]  # fmt: skip
    tokens = {} if states else {1: Dim.DYNAMIC}
    yield Program("step", Function(model, step), ((tokens, shapes),), runs)


def _filled(model: Any, past: Any) -> list[Any]:
    cache = transformers.DynamicCache(config=model.config)
    for layer, values in zip(cache.layers, past, strict=True):
        _fill(layer, values)
    return list(cache.layers)


def _names(layer: Any) -> list[str]:
    """What each tensor of a layer is, in the order of `_held`."""
    return [name for name in _HELD for _ in _tensors(getattr(layer, name, None))]


def _held(layer: Any) -> list[torch.Tensor]:
    return [x for name in _HELD for x in _tensors(getattr(layer, name, None))]


def _tensors(value: Any) -> list[torch.Tensor]:
    parts = value.values() if isinstance(value, dict) else value
    parts = [parts] if isinstance(value, torch.Tensor) else parts or []
    return [x for x in parts if isinstance(x, torch.Tensor)]


def _fill(layer: Any, values: Any) -> None:
    """Put into a layer of an empty cache what `_held` returned."""
    values = list(values)
    if hasattr(layer, "update") and not hasattr(layer, "update_conv_state"):
        if values:
            layer.update(*values)
        return
    if hasattr(layer, "update") and len(values) == 4:
        layer.update(*values[:2])
        values = values[2:]
    layer.update_conv_state(values[0].clone(), conv_kernel_size=values[0].shape[-1])
    for state in values[1:]:
        layer.update_recurrent_state(state.clone())


def _of_rwkv(model: Any) -> Iterator[Program]:
    def run(model: Any, ids: torch.Tensor, state: Any = None) -> Any:
        copies = None if state is None else [x.clone() for x in state]
        out = model(input_ids=ids, state=copies, use_cache=True)
        return out.logits, list(out.state)

    runs: list[tuple[Any, ...]] = []
    for count in (2, 5):
        ids = token_ids(count)
        yield Program(f"prefill_{count}", Function(model, run), None, [(ids,)])
        with torch.no_grad():
            runs.append((token_ids(1), run(model, ids)[1]))
    yield Program("step", Function(model, run), None, runs)
