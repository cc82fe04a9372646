"""Configurations of newer decoders of `transformers`, with a cache, in small sizes.

olmoe, granite_moe, llama4, gpt_oss experts; `granite_moe` has one fused matrix for gate and up
cohere, cohere2, minicpm3, phi, phi4, nemotron      attention, norms and rotations in other forms
ernie4_5, helium, granite           the same
glm4, smollm3, mistral, gemma3      the same, and windows that slide
gemma3n                   layers that share keys and values, sparse activations
qwen2_vl, qwen3_vl        the part of a vision-language model that reads text
jamba, bamba, qwen3_next, lfm2, falcon_h1, zamba2      layers with a state beside attention
rwkv, mamba2              a state only
"""

from __future__ import annotations

from typing import Any

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
_WINDOWS = {"sliding_window": 32, "layer_types": ["sliding_attention", "full_attention"]}
#: The class of each architecture, and its configuration.
HYBRIDS: dict[str, tuple[str, dict[str, Any]]] = {
    "olmoe": ("OlmoeForCausalLM", {**_SIZES, **_EXPERTS, "num_experts": 8}),
    "granite_moe": ("GraniteMoeForCausalLM", {**_SIZES, **_EXPERTS, "num_local_experts": 4}),
    "gpt_oss": ("GptOssForCausalLM", {
        **_SIZES, **_EXPERTS, "head_dim": 16, "num_local_experts": 4, "sliding_window": 32}),
    "ernie4_5": ("Ernie4_5ForCausalLM", {**_SIZES, "head_dim": 16}),
    "helium": ("HeliumForCausalLM", {**_SIZES, "head_dim": 16}),
    "granite": ("GraniteForCausalLM", {
        **_SIZES, "residual_multiplier": 0.5, "logits_scaling": 3.0, "embedding_multiplier": 2.0,
        "attention_multiplier": 0.3}),
    "mamba2": ("Mamba2ForCausalLM", {
        "hidden_size": 32, "num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1,
        "chunk_size": 8, "num_hidden_layers": 2, "vocab_size": 101, "pad_token_id": 0,
        "bos_token_id": 1, "eos_token_id": 2}),
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
    "phi": ("PhiForCausalLM", {**_SIZES, "num_key_value_heads": 4, "qk_layernorm": True}),
    "nemotron": ("NemotronForCausalLM", _SIZES),
    "cohere2": ("Cohere2ForCausalLM", {**_SIZES, **_WINDOWS}),
    "gemma3": ("Gemma3ForCausalLM", {**_SIZES, **_WINDOWS, "head_dim": 16,
                                     "query_pre_attn_scalar": 16}),
    "mistral": ("MistralForCausalLM", {**_SIZES, "sliding_window": 32}),
    "smollm3": ("SmolLM3ForCausalLM", {**_SIZES, "no_rope_layers": [1, 0]}),
    "glm4": ("Glm4ForCausalLM", {**_SIZES, "head_dim": 16}),
    "llama4": ("Llama4ForCausalLM", {
        **_SIZES, "head_dim": 16, "intermediate_size_mlp": 96, "num_local_experts": 4,
        "no_rope_layers": [1, 0], "interleave_moe_layer_step": 2, "attention_chunk_size": 32,
        "floor_scale": 4}),
    "falcon_h1": ("FalconH1ForCausalLM", {
        **_SIZES, **_MAMBA2, "mamba_d_ssm": 64, "mamba_n_heads": 4, "head_dim": 16}),
    "zamba2": ("Zamba2ForCausalLM", {
        **_SIZES, "num_key_value_heads": 4, "layers_block_type": ["mamba", "hybrid"],
        "mamba_d_state": 8, "n_mamba_heads": 8, "chunk_size": 8, "adapter_rank": 8,
        "use_mamba_kernels": False, "use_mem_rope": True, "use_shared_attention_adapter": True}),
    "rwkv": ("RwkvForCausalLM", {
        "vocab_size": 101, "context_length": 64, "hidden_size": 32, "num_hidden_layers": 2,
        "attention_hidden_size": 32, "intermediate_size": 64, "bos_token_id": 1,
        "eos_token_id": 2, "rescale_every": 0}),
}  # fmt: skip
