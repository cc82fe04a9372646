"""PP-OCRv4 detection, recognition and direction models, real weights, from rapidocr-onnxruntime.

Only the ONNX files of that wheel are wanted: it is installed without what it depends on and never
imported.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import tvm

import opinfo

from .weights import Spec, lift, stored

FILES = {
    "ocr_det": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320)),
    "ocr_rec": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
    "ocr_cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
}


def path(name: str) -> Path:
    """The ONNX file. Raises FileNotFoundError where the wheel is not installed."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pip install --no-deps rapidocr-onnxruntime")
    return Path(spec.origin).parent / "models" / FILES[name][0]


def build(name: str) -> tuple[tvm.IRModule, list[Spec]]:
    """The module, made static, with weights as parameters, and their real values."""
    mod, values = lift(opinfo.load(path(name), {"x": FILES[name][1]}))
    return mod, [stored(i, value) for i, value in enumerate(values)]
