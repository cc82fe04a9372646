"""Architectures as torch modules with seeded random weights, for import by torch.export or ONNX.

`NETS` is the table; `built(name)` returns a module with its sample inputs and dynamic dimensions,
`saved(name, folder)` writes the file that users would have, and `resized` makes inputs of another
size. Sizes are the published ones unless the source says otherwise: what a call of one core takes
in a second, and what fits in memory together with its import.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from . import last_models
from .later_files import TIMM
from .net_inputs import along, clicks, dense_graph, edges, fixed, latents, pair, text, words

#: Module, sample inputs by name, dynamic dimensions by input and axis (None: all static).
Built: TypeAlias = "tuple[Any, dict[str, Any], dict[str, dict[int, Any]] | None]"


@dataclass(frozen=True)
class Net:
    """An architecture of the zoo.

    Attributes:
        source: The package, or the paper that a module of ours follows; what was made smaller.
        build: Returns the module, sample inputs and dynamic dimensions; seed torch before.
        suffix: ``.pt2`` for `torch.export.save`, ``.onnx`` for `torch.onnx.export`.
    """

    source: str
    build: Callable[[], Built]
    suffix: str = ".pt2"


def built(name: str) -> Built:
    """Return the seeded module of `NETS[name]` in evaluation mode, its inputs, its dynamic dims.

    Raises:
        KeyError: The name is unknown.
        ImportError: Its package is not installed.
    """
    import torch

    torch.manual_seed(zlib.crc32(name.encode()))
    module, inputs, dynamic = NETS[name].build()
    _randomise(module)
    return module.eval(), inputs, dynamic


def program(name: str) -> Any:
    """Return the `torch.export.ExportedProgram` of a net."""
    import torch

    module, inputs, dynamic = built(name)
    shapes = None if dynamic is None else {key: dynamic.get(key) for key in inputs}
    with torch.no_grad():
        return torch.export.export(module, (), inputs, dynamic_shapes=shapes, strict=False)


def saved(name: str, folder: Path) -> Path:
    """Write a net as a file in ``folder`` and return its path."""
    import torch

    path = folder / (name.replace("/", "-") + NETS[name].suffix)
    if path.suffix == ".pt2":
        torch.export.save(program(name), path)
        return path
    module, inputs, dynamic = built(name)
    axes = {key: {axis: str(dim.__name__) for axis, dim in dims.items()}
            for key, dims in (dynamic or {}).items()}  # fmt: skip
    torch.onnx.export(module, tuple(inputs.values()), path, input_names=list(inputs),
                      dynamic_axes=axes, dynamo=False, opset_version=17)  # fmt: skip
    return path


def resized(inputs: Mapping[str, Any], dynamic: Any, factor: int, seed: int = 1) -> dict[str, Any]:
    """Return random inputs whose dynamic dimensions are ``factor`` times those of a sample.

    Integers are drawn from the values of the sample, so that indices stay valid.
    """
    import torch

    random = torch.Generator().manual_seed(seed)
    out = {}
    for key, sample in inputs.items():
        shape = list(sample.shape)
        for axis in (dynamic or {}).get(key) or {}:
            shape[axis] *= factor
        if sample.is_floating_point():
            out[key] = torch.randn(shape, generator=random).to(sample.dtype)
        else:
            values = sample.flatten()
            out[key] = values[torch.randint(len(values), shape, generator=random)]
    return out


def _randomise(module: Any) -> None:
    """Move norms, biases and statistics away from 0 and 1; weights keep their scale.

    Weights that start as zeros, such as those of some heads, would hide all that comes before.
    """
    import torch

    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if not tensor.is_floating_point():
                continue
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.ndim == 1 and name.endswith(("weight", "bias", "running_mean", "gamma")):
                tensor.add_(torch.randn_like(tensor) * 0.1)
            elif tensor.ndim > 1 and not tensor.any() and name.endswith("weight"):
                tensor.normal_(std=0.02)


def _image(model: str, size: int = 224) -> Callable[[], Built]:
    """An image classifier of timm without its weights."""

    def build() -> Built:
        import torch

        from .timm_models import timm

        network = timm().create_model(model, pretrained=False)
        return network, {"x": torch.randn(1, 3, size, size)}, None

    return build


def _transformer(
    model: str, config: str, options: dict[str, Any], inputs: Callable[[Any], Any]
) -> Callable[[], Built]:
    """A model of transformers in a configuration."""

    def build() -> Built:
        import torch
        import transformers

        settings = getattr(transformers, config)(**options)
        sample, dynamic = inputs(torch)
        return getattr(transformers, model)(settings), sample, dynamic

    return build


def _paper(module: str, name: str, inputs: Callable[[Any], Any]) -> Callable[[], Built]:
    """A module of ours, by file and class."""

    def build() -> Built:
        import importlib

        import torch

        network = getattr(importlib.import_module(f"benchmarks.zoo.modules.{module}"), name)()
        sample, dynamic = inputs(torch)
        return network, sample, dynamic

    return build


_VISION: dict[str, Net] = {
    **{f"timm/{name}": Net("timm", _image(name)) for name in (
        "swin_tiny_patch4_window7_224", "convnext_tiny", "efficientnet_b0", "regnety_008",
        "mobilenetv3_large_100", "vit_small_patch16_224", "deit_tiny_patch16_224",
        "efficientformer_l1", "levit_128", "poolformer_s12", "mixer_s32_224", "ghostnet_100",
        "densenet121", "repvgg_a0", "hrnet_w18_small",
    )},
    "timm/mobilevit_s": Net("timm", _image("mobilevit_s", 256)),
    "transformers/segformer_b0": Net("transformers, at 256 x 256", _transformer(
        "SegformerForSemanticSegmentation", "SegformerConfig", dict(num_labels=150),
        fixed(pixel_values=(1, 3, 256, 256)))),
    "transformers/detr_resnet50": Net("transformers, at 256 x 256", _transformer(
        "DetrForObjectDetection", "DetrConfig", dict(
            use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
            backbone_config=dict(model_type="resnet", out_features=["stage4"]), num_labels=91),
        fixed(pixel_values=(1, 3, 256, 256)))),
    "transformers/depth_anything_small": Net("transformers, at 224 x 224", _transformer(
        "DepthAnythingForDepthEstimation", "DepthAnythingConfig", dict(
            backbone_config=dict(
                model_type="dinov2", hidden_size=384, num_attention_heads=6, image_size=518,
                patch_size=14, out_indices=[3, 6, 9, 12], reshape_hidden_states=False,
                apply_layernorm=True)),
        fixed(pixel_values=(1, 3, 224, 224)))),
    "transformers/clip_vision_b32": Net("transformers", _transformer(
        "CLIPVisionModel", "CLIPVisionConfig", {}, fixed(pixel_values=(1, 3, 224, 224)))),
    "papers/unet": Net("U-Net, half as wide, at 256 x 256, multiples of 16", _paper(
        "dense_prediction", "SegmentationUNet",
        along("image", (1, 3, 256, 256), 2, 3, step=16))),
    "papers/diffusion_block": Net("a block of latent diffusion's UNet", _paper(
        "dense_prediction", "DiffusionBlock", latents)),
    "papers/espcn": Net("ESPCN", _paper(
        "dense_prediction", "SubPixel", along("luminance", (1, 1, 180, 240), 2, 3))),
    "papers/style_transfer": Net("perceptual losses, at 128 x 128, multiples of 4", _paper(
        "dense_prediction", "StyleTransfer", along("image", (1, 3, 128, 128), 2, 3, step=4))),
}  # fmt: skip

_LANGUAGE: dict[str, Net] = {
    "transformers/t5_small": Net("transformers", _transformer(
        "T5ForConditionalGeneration", "T5Config", dict(use_cache=False), pair(32128))),
    "transformers/bart_base": Net("transformers, vocabulary of 8000", _transformer(
        "BartModel", "BartConfig", dict(
            vocab_size=8000, d_model=768, encoder_layers=6, decoder_layers=6,
            encoder_attention_heads=12, decoder_attention_heads=12, encoder_ffn_dim=3072,
            decoder_ffn_dim=3072, use_cache=False), pair(8000))),
    "transformers/distilgpt2": Net("transformers", _transformer(
        "GPT2LMHeadModel", "GPT2Config", dict(n_layer=6, use_cache=False), text(50257))),
    "transformers/llama_15m": Net("transformers, the size of stories15M", _transformer(
        "LlamaForCausalLM", "LlamaConfig", dict(
            hidden_size=288, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
            num_key_value_heads=6, max_position_embeddings=256, use_cache=False), text(32000))),
    "transformers/qwen2": Net("transformers, Qwen2-0.5B with 4 of 24 layers, 8000 words",
        _transformer("Qwen2ForCausalLM", "Qwen2Config", dict(
            vocab_size=8000, hidden_size=896, intermediate_size=4864, num_hidden_layers=4,
            num_attention_heads=14, num_key_value_heads=2, use_cache=False), text(8000, 32))),
    "transformers/distilbert": Net("transformers", _transformer(
        "DistilBertModel", "DistilBertConfig", {}, text(30522))),
    "transformers/electra_small": Net("transformers", _transformer(
        "ElectraModel", "ElectraConfig", {}, text(30522))),
    "transformers/clip_text_b32": Net("transformers", _transformer(
        "CLIPTextModel", "CLIPTextConfig", {}, text(49000, 32, 77))),
}  # fmt: skip

_SOUND: dict[str, Net] = {
    "transformers/whisper_tiny_encoder": Net("transformers", _transformer(
        "WhisperForAudioClassification", "WhisperConfig", dict(num_labels=20),
        fixed(input_features=(1, 80, 3000)))),
    "transformers/wav2vec2_base": Net("transformers, a second of sound", _transformer(
        "Wav2Vec2ForCTC", "Wav2Vec2Config", {},
        along("input_values", (1, 16000), 1, step=320, least=3))),
    "transformers/hubert_base": Net("transformers, half a second of sound", _transformer(
        "HubertModel", "HubertConfig", {}, fixed(input_values=(1, 8000)))),
    "papers/hifigan_v2": Net("HiFi-GAN V2", _paper(
        "speech", "Vocoder", along("mel", (1, 80, 64), 2))),
    "papers/conv_tasnet": Net("Conv-TasNet, a second at 8 kHz", _paper(
        "speech", "ConvTasNet", along("wave", (1, 1, 8000), 2, step=8))),
    "papers/wavenet": Net("WaveNet, 20 layers", _paper(
        "speech", "WaveNet", along("wave", (1, 1, 2048), 2))),
    "papers/conformer_block": Net("a block of Conformer-S", _paper(
        "speech", "ConformerBlock", along("frames", (1, 200, 144), 1, most=2048))),
}  # fmt: skip

_RECURRENT: dict[str, Net] = {
    "papers/crnn": Net("CRNN by ONNX", _paper(
        "recurrent_nets", "Crnn", along("image", (1, 1, 32, 128), 3, step=4)), ".onnx"),
    "papers/rnnoise": Net("RNNoise by ONNX", _paper(
        "recurrent_nets", "NoiseSuppressor", along("bands", (1, 100, 42), 1)), ".onnx"),
    "papers/deep_speech_2": Net("Deep Speech 2, three GRUs of 256, by ONNX", _paper(
        "recurrent_nets", "DeepSpeech", along("spectrogram", (1, 1, 161, 200), 3)), ".onnx"),
    "papers/tagger": Net("BiLSTM tagger", _paper("recurrent_nets", "Tagger", words)),
    "papers/forecaster": Net("DeepAR", _paper(
        "recurrent_nets", "Forecaster", fixed(window=(24, 4, 8)))),
}  # fmt: skip

_SETS: dict[str, Net] = {
    "papers/pointnet": Net("PointNet", _paper(
        "points_and_graphs", "PointNet", along("points", (1, 3, 1024), 2))),
    "papers/gin": Net("GIN by an edge list", _paper(
        "points_and_graphs", "MessagePassing", edges)),
    "papers/gcn": Net("GCN by a dense adjacency", _paper(
        "points_and_graphs", "GraphConvolution", dense_graph)),
    "papers/dlrm": Net("DLRM, 26 tables of 1000 rows", _paper(
        "points_and_graphs", "Recommender", clicks)),
}  # fmt: skip

_LATER = {f"timm/{name}": Net("timm", _image(name)) for name in TIMM}
_LAST = {
    **{f"timm/{name}": Net("timm", _image(name)) for name in last_models.TIMM},
    **{f"transformers/{name}": Net("transformers", _transformer(*of))
       for name, of in last_models.TRANSFORMERS.items()},
}  # fmt: skip

NETS: dict[str, Net] = {**_VISION, **_LANGUAGE, **_SOUND, **_RECURRENT, **_SETS, **_LATER,
                        **_LAST}  # fmt: skip
