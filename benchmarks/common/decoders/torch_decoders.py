"""Language models of `transformers` with random weights, exported with a cache of any length."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import nn

_SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 101, "max_position_embeddings": 256,
    "attn_implementation": "eager", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_LLAMA_3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}  # fmt: skip
#: The class of each architecture, and what it has beside the sizes.
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"rope_parameters": _LLAMA_3}),
    "qwen2": ("Qwen2", {}),
    "gemma2": ("Gemma2", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8}),
    "phi3": ("Phi3", {"partial_rotary_factor": 0.5}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2,
                            "experts_implementation": "batched_mm"}),
}  # fmt: skip
Pairs = list[tuple[torch.Tensor, torch.Tensor]]


def network(architecture: str, **sizes: Any) -> Any:
    """Return a model with random weights; ``sizes`` replace those of the configuration."""
    name, options = ARCHITECTURES[architecture]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**_SIZES, **options, **sizes})
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0 if parameter.dim() > 1 else 1.0, 0.1)
    return model


class Step(nn.Module):
    """The logits of some tokens, and the keys and values of all tokens so far."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, past: Pairs) -> tuple[torch.Tensor, Pairs]:
        cache = transformers.DynamicCache(past)
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in out.past_key_values.layers]


class StaticStep(Step):
    """The same with a cache of a fixed size, in which the tokens have positions."""

    def forward(  # type: ignore[override]
        self, ids: torch.Tensor, past: Pairs, positions: torch.Tensor
    ) -> tuple[torch.Tensor, Pairs]:
        size = past[0][0].shape[2]
        cache = transformers.StaticCache(config=self.model.config, max_cache_len=size)
        for layer, (keys, values) in zip(cache.layers, past, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys.clone(), values.clone()
            layer.cumulative_length = positions[:1].clone()
        out = self.model(input_ids=ids, position_ids=positions[None], past_key_values=cache,
                         use_cache=True)  # fmt: skip
        return out.logits, [(layer.keys, layer.values) for layer in cache.layers]


def empty_cache(model: Any, batch: int = 1, length: int = 0) -> Pairs:
    """Return keys and values of so many tokens."""
    config = model.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = (batch, config.num_key_value_heads, length, size)
    return [(torch.zeros(shape), torch.zeros(shape)) for _ in range(config.num_hidden_layers)]


def exported_static(model: Any, size: int) -> Any:
    """Export a step for any number of tokens, with a cache of so many."""
    past, dim = empty_cache(model, length=size), torch.export.Dim
    args = (torch.ones((1, 3), dtype=torch.int64), past, torch.arange(3))
    fixed: list[tuple[dict[int, Any], dict[int, Any]]] = [({}, {}) for _ in past]
    shapes = ({1: dim.DYNAMIC}, fixed, {0: dim.DYNAMIC})
    with torch.no_grad():
        return torch.export.export(StaticStep(model), args, dynamic_shapes=shapes, strict=False)


def exported(model: Any) -> Any:
    """Export a step for any number of tokens, after any number of tokens."""
    past, dim = empty_cache(model, length=5), torch.export.Dim
    shapes = ({1: dim.DYNAMIC}, [({2: dim.DYNAMIC}, {2: dim.DYNAMIC}) for _ in past])
    with torch.no_grad():
        return torch.export.export(
            Step(model), (torch.ones((1, 3), dtype=torch.int64), past), dynamic_shapes=shapes,
            strict=False)  # fmt: skip
