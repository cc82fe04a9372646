"""Configurations of encoders of images and sound, and of decoders without a cache of tensors.

dinov2_with_registers, dinov3_vit, siglip      features of images
depth_anything, dpt, rt_detr, swin2sr          depth, classes of pixels, boxes, more pixels
wav2vec2, dac                                  sound: features, and a codec
minimax, xlstm, recurrent_gemma                logits of a text of fixed length

Each has what it reads, its class, and its configuration.
"""

from __future__ import annotations

from typing import Any

_VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 48, "image_size": 32, "patch_size": 8,
        "attn_implementation": "eager"}  # fmt: skip
_TEXT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 101,
         "intermediate_size": 96, "pad_token_id": 0, "bos_token_id": 1,
         "eos_token_id": 2}  # fmt: skip
_STAGES = [f"stage{k}" for k in range(1, 5)]
_DINO = {"model_type": "dinov2", "hidden_size": 32, "num_hidden_layers": 4, "image_size": 32,
         "num_attention_heads": 2, "patch_size": 8, "out_features": _STAGES,
         "reshape_hidden_states": False}  # fmt: skip
_RESNET = {"model_type": "rt_detr_resnet", "embedding_size": 16, "hidden_sizes": [16, 24, 32, 40],
           "depths": [1, 1, 1, 1], "layer_type": "basic", "out_features": _STAGES[1:]}  # fmt: skip
_NECK = {"neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8}
IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dinov2_with_registers": ("image", "Dinov2WithRegistersModel", _VIT),
    "dinov3_vit": ("image", "DINOv3ViTModel", {**_VIT, "num_register_tokens": 4}),
    "siglip": ("text and image", "SiglipModel", {
        "text_config": {**_TEXT, "projection_size": 32}, "vision_config": _VIT}),
    "depth_anything": ("image", "DepthAnythingForDepthEstimation", {
        **_NECK, "backbone_config": _DINO, "patch_size": 8, "reassemble_hidden_size": 32,
        "head_hidden_size": 8}),
    "dpt": ("image", "DPTForSemanticSegmentation", {
        **_VIT, **_NECK, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3],
        "num_labels": 5, "use_batch_norm_in_fusion_residual": True, "use_auxiliary_head": False}),
    "rt_detr": ("one image", "RTDetrForObjectDetection", {
        "backbone_config": _RESNET, "encoder_hidden_dim": 32, "encoder_in_channels": [24, 32, 40],
        "encoder_ffn_dim": 32, "encoder_attention_heads": 2, "d_model": 32, "num_queries": 9,
        "decoder_in_channels": [32, 32, 32], "decoder_ffn_dim": 32, "decoder_layers": 2,
        "decoder_attention_heads": 2, "num_labels": 5, "num_denoising": 0}),
    "swin2sr": ("image", "Swin2SRForImageSuperResolution", {
        "embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4, "image_size": 32}),
    "wav2vec2": ("wave", "Wav2Vec2ForCTC", {
        **_TEXT, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3],
        "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 2}),
    "dac": ("waves", "DacModel", {
        "encoder_hidden_size": 4, "downsampling_ratios": [2, 4], "decoder_hidden_size": 16,
        "n_codebooks": 2, "codebook_size": 16, "codebook_dim": 4, "upsampling_ratios": [4, 2]}),
    "minimax": ("tokens", "MiniMaxForCausalLM", {
        **_TEXT, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "experts_implementation": "grouped_mm", "block_size": 4, "use_cache": False,
        "layer_types": ["linear_attention", "full_attention"], "attn_implementation": "eager"}),
    "xlstm": ("tokens", "xLSTMForCausalLM", {
        "vocab_size": 101, "hidden_size": 32, "num_heads": 4, "num_blocks": 1, "chunk_size": 4,
        "num_hidden_layers": 1, "ffn_round_up_to_multiple_of": 8, "pad_token_id": 0,
        "autocast_kernel_dtype": "float32", "use_cache": False}),
    "recurrent_gemma": ("tokens", "RecurrentGemmaForCausalLM", {
        **_TEXT, "num_key_value_heads": 2, "lru_width": 64, "attention_window_size": 32,
        "block_types": ["recurrent", "attention"], "use_cache": False}),
}  # fmt: skip
