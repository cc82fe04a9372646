"""Small transformers of the `transformers` package with random weights, through torch.export."""

from __future__ import annotations

from typing import Any

import tvm

from opinfo.frontend.checks.normalise_module import tidy
from opinfo.frontend.formats.from_torch import from_program

from .weights import Spec, stored

VOCABULARY = 97
BATCH, LENGTH = 2, 16

CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": (
        "BertConfig",
        "BertModel",
        dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
             vocab_size=VOCABULARY, max_position_embeddings=32),
    ),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        dict(n_embd=64, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=32,
             use_cache=False, bos_token_id=0, eos_token_id=0),
    ),
    "vit": (
        "ViTConfig",
        "ViTModel",
        dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
             image_size=32, patch_size=8),
    ),
    "swin": (
        "SwinConfig",
        "SwinModel",
        dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4],
             window_size=4),
    ),
}  # fmt: skip


def program(name: str, symbolic: bool) -> Any:
    """The `torch.export.ExportedProgram`; `symbolic` makes the batch a dimension from 1 to 64."""
    import torch

    model, sample = torch_model(name)
    batch = torch.export.Dim("n", min=1, max=64)
    dims = {key: {0: batch} for key in sample} if symbolic else None
    with torch.no_grad():
        return torch.export.export(model, (), sample, dynamic_shapes=dims, strict=False)


def torch_model(name: str) -> tuple[Any, dict[str, Any]]:
    """The seeded torch module in evaluation mode, and a sample of its keyword inputs."""
    import torch
    import transformers

    config, model, options = CONFIGS[name]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**options)).eval()
    with torch.no_grad():
        for param in made.parameters():  # biases start as 0, scales as 1: constants hide errors
            wide = param.ndim > 1
            scale = param.shape[-1] ** -0.5 if wide else 0.1
            param.copy_((0 if wide else param) + scale * torch.randn_like(param))
    if name in ("bert", "gpt2"):
        return made, {"input_ids": torch.randint(0, VOCABULARY, (BATCH, LENGTH))}
    return made, {"pixel_values": torch.randn(BATCH, 3, 32, 32)}


def build(name: str, symbolic: bool) -> tuple[tvm.IRModule, list[Spec]]:
    """The module with weights as parameters, and their values."""
    mod = from_program(program(name, symbolic), keep_params_as_input=True)
    values = [tensor.numpy() for tensor in mod["main"].attrs["params"]]
    mod.update_func(mod.get_global_var("main"), mod["main"].without_attr("params"))
    return tidy(mod), [stored(i, value) for i, value in enumerate(values)]
