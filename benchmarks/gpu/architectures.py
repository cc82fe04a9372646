"""Architectures with random weights for a GPU, in half precision unless said.

`SETS` has those that the project works with, and sets that were chosen once, one after the other,
to report on what nothing was tuned for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Net:
    """An architecture.

    Attributes:
        build: Returns a torch module in evaluation mode; seed torch before.
        inputs: Returns the inputs, of the batch size.
        batches: The batch sizes that it is measured at.
    """

    build: Callable[[], Any]
    inputs: Callable[[int], tuple[Any, ...]]
    batches: tuple[int, ...] = (1, 32)


def _image(model: str, size: int = 224, **options: Any) -> Net:
    def build() -> Any:
        from benchmarks.zoo.models.timm_models import timm

        return timm().create_model(model, pretrained=False, **options)

    def inputs(batch: int) -> tuple[Any, ...]:
        import torch

        return (torch.randn(batch, 3, size, size),)

    return Net(build, inputs)


def _text(kind: str, tokens: int, batches: tuple[int, ...], **options: Any) -> Net:
    def build() -> Any:
        import torch
        import transformers

        config = getattr(transformers, kind + "Config")(**options)
        config._attn_implementation = "sdpa"
        model = getattr(transformers, kind + "Model")(config)
        cached = {"use_cache": False} if kind in _CACHED else {}

        class Hidden(torch.nn.Module):
            """The last hidden state alone."""

            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: Any) -> Any:
                return self.model(input_ids=ids, **cached).last_hidden_state

        return Hidden()

    def inputs(batch: int) -> tuple[Any, ...]:
        import torch

        return (torch.randint(0, 1000, (batch, tokens)),)

    return Net(build, inputs, batches)


def _decode(layers: int, past: int) -> Net:
    """One token of a Llama-like model over a cache of a static length."""

    def build() -> Any:
        from .torch_modules import Decoder

        return Decoder(layers)

    def inputs(batch: int) -> tuple[Any, ...]:
        import torch

        from .torch_modules import Decoder

        caches = [
            torch.randn(batch, Decoder.KV_HEADS, past, Decoder.HEAD) for _ in range(2 * layers)
        ]
        return (torch.randn(batch, 1, Decoder.WIDTH), *caches)

    return Net(build, inputs)


def _module(name: str, size: int) -> Net:
    def build() -> Any:
        from . import torch_modules

        return getattr(torch_modules, name)()

    def inputs(batch: int) -> tuple[Any, ...]:
        import torch

        return (torch.randn(batch, 3, size, size),)

    return Net(build, inputs)


#: Kinds of models in transformers that return a cache if nothing is said.
_CACHED = ("GPT2", "GPTNeoX", "Llama", "Phi", "Qwen2", "Qwen3")
_LLAMA = dict(num_hidden_layers=8, hidden_size=2048, intermediate_size=5632, vocab_size=32000,
              num_attention_heads=32, num_key_value_heads=8)  # fmt: skip

_NETS = {
    "resnet50": _image("resnet50"),
    "mobilenet_v3": _image("mobilenetv3_large_100"),
    "efficientnet_b0": _image("efficientnet_b0"),
    "convnext_tiny": _image("convnext_tiny"),
    "unet": _module("UNet", 256),
    "yolo": _module("Yolo", 320),
    "vit_b16": _image("vit_base_patch16_224"),
    "swin_tiny": _image("swin_tiny_patch4_window7_224"),
    "bert_base": _text("Bert", 128, (1, 32)),
    "gpt2": _text("GPT2", 128, (1, 32)),
    "llama_128": _text("Llama", 128, (1,), **_LLAMA),
    "llama_1024": _text("Llama", 1024, (1,), **_LLAMA),
    "llama_decode": _decode(8, 512),
}
_QWEN2 = dict(num_hidden_layers=8, hidden_size=896, intermediate_size=4864, vocab_size=32000,
              num_attention_heads=14, num_key_value_heads=2)  # fmt: skip
_PHI = dict(num_hidden_layers=8, hidden_size=2048, intermediate_size=8192, vocab_size=51200,
            num_attention_heads=32)  # fmt: skip

_LATER = {
    **{name: _image(name) for name in (
        "densenet121", "regnety_032", "resnext50_32x4d", "efficientnetv2_rw_s", "hrnet_w18",
        "deit3_small_patch16_224", "mixer_b16_224", "poolformerv2_s12", "coatnet_0_rw_224",
    )},
    "mobilevitv2_100": _image("mobilevitv2_100", 256),
    "distilbert": _text("DistilBert", 128, (1, 32)),
    "qwen2_256": _text("Qwen2", 256, (1,), **_QWEN2),
}  # fmt: skip
_LAST = {
    **{name: _image(name) for name in (
        "convnextv2_tiny", "ghostnet_100", "levit_256", "maxvit_tiny_rw_224", "res2net50_26w_4s",
        "vgg16",
    )},
    "inception_v3": _image("inception_v3", 299),
    "edgenext_small": _image("edgenext_small", 256),
    "modernbert": _text("ModernBert", 128, (1, 32)),
    "phi_256": _text("Phi", 256, (1,), **_PHI),
}  # fmt: skip
_ALBERT = dict(num_hidden_layers=12, hidden_size=768, intermediate_size=3072,
               num_attention_heads=12)  # fmt: skip
_QWEN3 = dict(num_hidden_layers=8, hidden_size=1024, intermediate_size=3072, vocab_size=32000,
              num_attention_heads=16, num_key_value_heads=8, head_dim=128)  # fmt: skip
_NEOX = dict(num_hidden_layers=8, hidden_size=1024, intermediate_size=4096, vocab_size=50432,
             num_attention_heads=16)  # fmt: skip
_NEWEST = {
    **{name: _image(name) for name in (
        "cspdarknet53", "davit_tiny", "efficientvit_b1", "focalnet_tiny_srf", "hiera_tiny_224",
        "mobilenetv4_conv_medium", "pvt_v2_b1", "repvit_m1_1", "seresnet50", "xcit_tiny_12_p16_224",
    )},
    "albert": _text("Albert", 128, (1, 32), **_ALBERT),
    "qwen3_256": _text("Qwen3", 256, (1,), **_QWEN3),
    "gpt_neox_256": _text("GPTNeoX", 256, (1,), **_NEOX),
}  # fmt: skip
#: Networks by set: what the project works with, and what was chosen after it, three times.
SETS: Mapping[str, Mapping[str, Net]] = {
    "first": _NETS, "later": _LATER, "last": _LAST, "newest": _NEWEST,
}  # fmt: skip
#: Modes of `torch.compile` that capture CUDA graphs.
MODES = ("reduce-overhead", "max-autotune")
