"""The weights of a decoder of torch, by their names in the Relax decoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.common.decoders.group_quantized import dequantized, quantized

Array = np.ndarray[Any, Any]


def weights_of(model: Any, four_bits: bool) -> dict[str, Array]:
    """Return the weights by their names in the module, quantised if asked."""
    state = {k: v.detach() for k, v in model.state_dict().items()}
    gemma, out = model.config.model_type == "gemma2", {}

    def put(name: str, *sources: str, exact: bool = False) -> None:
        parts = [state[s] for s in sources]
        if not four_bits or exact:
            out[f"{name}.weight"] = np.concatenate([p.numpy() for p in parts])
            return
        pairs = [quantized(p.numpy()) for p in parts]
        for part, (words, scale) in zip(parts, pairs, strict=True):
            part.copy_(_tensor(dequantized(words, scale)))  # in the model, too
        out[f"{name}.words"], out[f"{name}.scale"] = map(np.concatenate, zip(*pairs, strict=True))

    def norm(name: str, source: str) -> None:
        out[f"{name}.weight"] = state[source].numpy() + (1 if gemma else 0)

    put("head", "lm_head.weight")
    out["table"] = state["model.embed_tokens.weight"].numpy().copy()
    norm("norm", "model.norm.weight")
    for k in range(model.config.num_hidden_layers):
        old, new = f"model.layers.{k}.", f"layers.{k}."
        every = [s.removeprefix(old) for s in state if s.startswith(old)]
        qkv = [f"{old}self_attn.{x}" for x in ("q_proj", "k_proj", "v_proj")]
        fused = "self_attn.qkv_proj.weight" in every
        sources = ["qkv_proj"] if fused else ["q_proj", "k_proj", "v_proj"]
        put(f"{new}attention.qkv", *(f"{old}self_attn.{s}.weight" for s in sources))
        if f"{qkv[0]}.bias" in state:
            out[f"{new}attention.qkv.bias"] = np.concatenate(
                [state[f"{n}.bias"].numpy() for n in qkv])  # fmt: skip
        put(f"{new}attention.out", f"{old}self_attn.o_proj.weight")
        if "mlp.experts.down_proj" in every:
            put(f"{new}inner.router", f"{old}mlp.gate.weight", exact=True)
            put(f"{new}inner.gate_up", f"{old}mlp.experts.gate_up_proj")
            put(f"{new}inner.down", f"{old}mlp.experts.down_proj")
        else:
            up = ["mlp.gate_up_proj"] if "mlp.gate_up_proj.weight" in every else [
                "mlp.gate_proj", "mlp.up_proj"]  # fmt: skip
            put(f"{new}inner.gate_up", *(f"{old}{u}.weight" for u in up))
            put(f"{new}inner.down", f"{old}mlp.down_proj.weight")
        names = [n for n in every if n.endswith("layernorm.weight")]
        for j, name in enumerate(names):
            norm(f"{new}norms.{j}", old + name)
    return out


def _tensor(array: Array) -> Any:
    import torch

    return torch.from_numpy(array)
