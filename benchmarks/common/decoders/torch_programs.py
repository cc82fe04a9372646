"""Programs of other architectures of `transformers`: state spaces, encoders with decoders, MLA.

    mamba         prefill of a fixed number of tokens, a step after any
    whisper, t5   encoder; decoder without and with a cache
    deepseek_v2   a step with rotations by complex numbers, and compressed keys
    deepseek_v3   the same with groups of experts

Weights are random and sizes are small. A program computes logits, and the states after its tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

_HEADS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101,
          "max_position_embeddings": 256, "attn_implementation": "eager", "pad_token_id": 0,
          "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
_MLA = {**_HEADS, "intermediate_size": 96, "moe_intermediate_size": 32, "num_key_value_heads": 4,
        "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 4,
        "topk_group": 2, "first_k_dense_replace": 1, "kv_lora_rank": 16, "q_lora_rank": 24,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
        "experts_implementation": "grouped_mm"}  # fmt: skip
#: The class and the configuration of each architecture.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "mamba": ("MambaForCausalLM", {
        "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 101, "state_size": 8,
        "time_step_rank": 4, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "whisper": ("WhisperForConditionalGeneration", {
        "d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 96,
        "vocab_size": 101, "num_mel_bins": 20, "max_source_positions": 24,
        "max_target_positions": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 1, "attn_implementation": "eager"}),
    "t5": ("T5ForConditionalGeneration", {
        "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 101,
        "pad_token_id": 0, "decoder_start_token_id": 0, "attn_implementation": "eager"}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {**_MLA, "topk_method": "group_limited_greedy"}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {**_MLA, "rope_interleave": True}),
}  # fmt: skip
Pairs = list[tuple[torch.Tensor, torch.Tensor]]
Dim = torch.export.Dim


@dataclass(frozen=True)
class Program:
    """A program to export, and its arguments for several lengths.

    Attributes:
        name: Its architecture and what it computes.
        module: The module.
        shapes: The dynamic dimensions of its arguments.
        arguments: The arguments of each run; the first ones are exported.
    """

    name: str
    module: nn.Module
    shapes: Any
    arguments: Sequence[tuple[Any, ...]]

    def exported(self) -> Any:
        with torch.no_grad():
            return torch.export.export(self.module, self.arguments[0], dynamic_shapes=self.shapes,
                                       strict=False)  # fmt: skip


class Function(nn.Module):
    """A function of a model as a module."""

    def __init__(self, model: Any, function: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *args: Any) -> Any:
        return self.function(self.model, *args)


def network(architecture: str, **sizes: Any) -> Any:
    """Return a model with random weights; ``sizes`` replace those of the configuration."""
    name, options = CONFIGURATIONS[architecture]
    return model_of(name, {**options, **sizes})


def model_of(name: str, options: dict[str, Any]) -> Any:
    """Return a model of a class with random weights; logarithms of decays stay as they are."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    model = kind(kind.config_class(**options)).eval()
    for key, parameter in model.named_parameters():
        if parameter.dim() > 1 and "A_log" not in key:
            nn.init.normal_(parameter, 0.0, 0.1)
    return model


def programs(architecture: str) -> Iterator[Program]:
    """Yield the programs of an architecture."""
    model = network(architecture)
    build = {"mamba": _of_states, "whisper": _of_speech, "t5": _of_text}.get(
        architecture, _of_cache
    )
    for program in build(model):
        yield Program(f"{architecture}.{program.name}", program.module, program.shapes,
                      program.arguments)  # fmt: skip


def token_ids(count: int, batch: int = 1) -> torch.Tensor:
    """Some tokens of the vocabulary."""
    return torch.randint(3, 101, (batch, count), generator=torch.Generator().manual_seed(count))


def _pairs(cache: Any) -> Pairs:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _grow(pairs: Pairs) -> list[tuple[dict[int, Any], dict[int, Any]]]:
    return [({2: Dim.DYNAMIC}, {2: Dim.DYNAMIC}) for _ in pairs]


def _of_cache(model: Any) -> Iterator[Program]:
    """A step of a decoder, for any number of tokens after any number of tokens."""

    def step(model: Any, ids: torch.Tensor, past: Pairs) -> Any:
        out = model(input_ids=ids, past_key_values=transformers.DynamicCache(past), use_cache=True)
        return out.logits, _pairs(out.past_key_values)

    def past(count: int) -> Pairs:
        with torch.no_grad():
            return _pairs(model(input_ids=token_ids(count), use_cache=True).past_key_values)

    runs = [(token_ids(new), past(old)) for new, old in ((3, 5), (1, 7), (6, 2), (1, 20))]
    shapes = ({1: Dim.DYNAMIC}, _grow(runs[0][1]))
    yield Program("step", Function(model, step), (shapes,), runs)


def _of_states(model: Any) -> Iterator[Program]:
    """Prefills of some lengths, since the scan is a loop in Python; a step of one token."""

    def states(cache: Any) -> Pairs:
        return [(layer.conv_states[0], layer.recurrent_states[0]) for layer in cache.layers]

    def prefill(model: Any, ids: torch.Tensor) -> Any:
        out = model(input_ids=ids, use_cache=True)
        return out.logits, states(out.past_key_values)

    def step(model: Any, ids: torch.Tensor, past: Pairs) -> Any:
        cache = transformers.DynamicCache(config=model.config)
        for layer, (conv, recurrent) in zip(cache.layers, past, strict=True):
            layer.update_conv_state(conv.clone(), conv_kernel_size=conv.shape[-1])
            layer.update_recurrent_state(recurrent.clone())
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        return out.logits, states(out.past_key_values)

    runs: list[tuple[Any, ...]] = []
    for count in (2, 5):
        ids = token_ids(count)
        yield Program(f"prefill_{count}", Function(model, prefill), None, [(ids,)])
        with torch.no_grad():
            runs.append((token_ids(1), prefill(model, ids)[1]))
    yield Program("step", Function(model, step), None, runs)


def _of_speech(model: Any) -> Iterator[Program]:
    length = 2 * model.config.max_source_positions
    waves = [torch.randn(1, model.config.num_mel_bins, length) for _ in range(2)]

    def encode(model: Any, features: torch.Tensor) -> Any:
        return model.get_encoder()(features).last_hidden_state

    yield Program("encoder", Function(model, encode), None, [(w,) for w in waves])
    with torch.no_grad():
        hidden = [encode(model, w) for w in waves]
    yield from _of_decoder(model, hidden, {})


def _of_text(model: Any) -> Iterator[Program]:
    def encode(model: Any, ids: torch.Tensor) -> Any:
        return model.get_encoder()(ids).last_hidden_state

    texts = [token_ids(count) for count in (7, 2, 15)]
    yield Program("encoder", Function(model, encode), (({1: Dim.DYNAMIC},),),
                  [(t,) for t in texts])  # fmt: skip
    with torch.no_grad():
        hidden = [encode(model, t) for t in texts]
    yield from _of_decoder(model, hidden, {1: Dim.DYNAMIC})


def _of_decoder(model: Any, hidden: list[torch.Tensor], read: dict[int, Any]) -> Iterator[Program]:
    """A decoder over what an encoder computed: its first tokens, and those after a cache."""

    def start(model: Any, ids: torch.Tensor, hidden: torch.Tensor) -> Any:
        out = model(decoder_input_ids=ids, encoder_outputs=(hidden,), use_cache=True)
        cache = out.past_key_values
        return out.logits, _pairs(cache.self_attention_cache), _pairs(cache.cross_attention_cache)

    def step(model: Any, ids: torch.Tensor, past: Pairs, cross: Pairs) -> Any:
        cache = transformers.EncoderDecoderCache(
            transformers.DynamicCache(past), transformers.DynamicCache(cross)
        )
        read = ids.new_zeros((1, cross[0][0].shape[2], 64), dtype=torch.float32)
        out = model(decoder_input_ids=ids, past_key_values=cache, use_cache=True,
                    encoder_outputs=(read,))  # fmt: skip
        return out.logits, _pairs(out.past_key_values.self_attention_cache)

    starts = [(token_ids(n), h) for n, h in zip((4, 1, 6), hidden, strict=False)]
    yield Program("start", Function(model, start), (({1: Dim.DYNAMIC}, read),), starts)
    with torch.no_grad():
        steps = [(token_ids(1), *start(model, *s)[1:]) for s in starts]
    longer = {axis + 1: dim for axis, dim in read.items()}
    across = [(longer, longer) for _ in steps[0][2]]
    yield Program("step", Function(model, step), (({}, _grow(steps[0][1]), across),), steps)
