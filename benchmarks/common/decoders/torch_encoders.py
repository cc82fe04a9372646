"""Encoders of `transformers`, of text, images and sound; those with a decoder, without a cache.

Each computes its results for any number of tokens or images; DETR for one image, and decoders of
`image_configurations` for one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .image_configurations import IMAGES
from .torch_programs import Dim, Function, Program, model_of, token_ids

_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101,
         "intermediate_size": 96, "max_position_embeddings": 64, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
_IMAGE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 96, "image_size": 32, "patch_size": 8}  # fmt: skip
_GEMMA = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 101,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 8,
          "query_pre_attn_scalar": 16, "max_position_embeddings": 64,
          "layer_types": ["sliding_attention", "full_attention"]}  # fmt: skip
_RESNET = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [16, 24, 32, 40],
           "depths": [1, 1, 1, 1], "layer_type": "basic",
           "out_features": ["stage2", "stage3", "stage4"]}  # fmt: skip
#: What each architecture reads, its class, and its configuration.
ENCODERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "modernbert": ("text", "ModernBertForMaskedLM", {
        **_TEXT, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2,
        "layer_types": ["full_attention", "sliding_attention"]}),
    "deberta_v2": ("text", "DebertaV2ForMaskedLM", {
        **_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "share_att_key": True,
        "position_buckets": 8, "norm_rel_ebd": "layer_norm", "position_biased_input": False}),
    "mt5": ("pair", "MT5ForConditionalGeneration", {
        "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "vocab_size": 101,
        "decoder_start_token_id": 0}),
    "t5gemma": ("pair", "T5GemmaForConditionalGeneration", {
        "encoder": _GEMMA, "decoder": _GEMMA, "vocab_size": 101}),
    "clip": ("text and image", "CLIPModel", {
        "text_config": {**_TEXT, "projection_dim": 32}, "projection_dim": 32,
        "vision_config": {**_IMAGE, "projection_dim": 32}}),
    "sam": ("image", "SamVisionModel", {
        **_IMAGE, "output_channels": 16, "window_size": 3, "global_attn_indexes": [1],
        "num_pos_feats": 8, "mlp_dim": 64}),
    "deformable_detr": ("one image", "DeformableDetrForObjectDetection", {
        "backbone_config": _RESNET, "backbone": None, "use_timm_backbone": False, "d_model": 32,
        "use_pretrained_backbone": False, "encoder_layers": 1, "decoder_layers": 2,
        "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "num_queries": 7, "num_labels": 5}),
    "wav2vec2_bert": ("sound", "Wav2Vec2BertForCTC", {
        **_TEXT, "feature_projection_input_dim": 20, "max_source_positions": 64,
        "conv_depthwise_kernel_size": 7}),
    **IMAGES,
}  # fmt: skip


def encoder_programs(architecture: str) -> Iterator[Program]:
    """Yield the program of an architecture."""
    reads, kind, options = ENCODERS[architecture]
    names, shapes, runs = _READS[reads]

    def read(model: Any, *args: torch.Tensor) -> Any:
        out = model(**dict(zip(names, args, strict=True)), return_dict=True)
        fields = _RESULTS.get(architecture) or [next(iter(out))]
        return [out[field] for field in fields]

    model = model_of(kind, options)
    yield Program(f"{architecture}.all", Function(model, read), (shapes,) if shapes else None, runs)


def _mask(count: int) -> torch.Tensor:
    """A mask of two texts, of which the first is one token shorter."""
    out = torch.ones(2, count, dtype=torch.int64)
    out[0, -1] = 0
    return out


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


_LENGTH: dict[int, Any] = {1: Dim.DYNAMIC}
_BATCH: dict[int, Any] = {0: Dim.DYNAMIC}
#: The inputs of what is read: their names, dynamic dimensions, and values for each run.
_READS: dict[str, tuple[tuple[str, ...], Any, list[tuple[torch.Tensor, ...]]]] = {
    "text": (("input_ids", "attention_mask"), (_LENGTH, _LENGTH),
             [(token_ids(n, 2), _mask(n)) for n in (9, 3, 17)]),
    "pair": (("input_ids", "decoder_input_ids"), (_LENGTH, _LENGTH),
             [(token_ids(n), token_ids(m)) for n, m in ((7, 4), (3, 2), (15, 6))]),
    "text and image": (("input_ids", "pixel_values"), (_LENGTH, _BATCH),
                       [(token_ids(n, 2), _random(m, 3, 32, 32)) for n, m in ((7, 2), (3, 4))]),
    "image": (("pixel_values",), (_BATCH,), [(_random(n, 3, 32, 32),) for n in (2, 1, 3)]),
    "one image": (("pixel_values",), None, [(_random(1, 3, 64, 96),)]),
    "wave": (("input_values",), (_LENGTH,), [(_random(1, n),) for n in (400, 640, 330)]),
    "waves": (("input_values",), ({2: Dim.DYNAMIC},), [(_random(1, 1, n),) for n in (64, 40, 96)]),
    "tokens": (("input_ids",), None, [(token_ids(8),)]),
    "sound": (("input_features",), (_LENGTH,), [(_random(1, n, 20),) for n in (12, 5, 30)]),
}  # fmt: skip
#: The results that are compared, where there is more than the first.
_RESULTS = {
    "clip": ("logits_per_image", "text_embeds", "image_embeds"),
    "deformable_detr": ("logits", "pred_boxes"),
    "rt_detr": ("logits", "pred_boxes"),
    "siglip": ("logits_per_image", "text_embeds", "image_embeds"),
    "dac": ("audio_codes", "audio_values"),
}
