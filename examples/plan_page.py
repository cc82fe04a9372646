"""The layouts of real models before and after planning, as pages.

    python -m examples.plan_page [NAME ...]

Plans the text detector and the recogniser of PP-OCRv4 (from the wheel of rapidocr-onnxruntime, with
their weights) for convolutions in NHWC and writes `ocr_det.html` and `ocr_rec.html` to `build/`:
each one file, to be opened in any browser. The command line does the same for any model:

    opinfo plan MODEL --shape x:1,3,320,320 --want conv2d=NHWC --html FILE
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import opinfo

MODELS = {
    "ocr_det": ("ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320)),
    "ocr_rec": ("ch_PP-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
}


BUILD = Path(__file__).parent.parent / "build"


def path(name: str) -> Path:
    """The ONNX file. Raises FileNotFoundError where the wheel is not installed."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pip install --no-deps rapidocr-onnxruntime")
    return Path(spec.origin).parent / "models" / MODELS[name][0]


def write(name: str, folder: Path) -> Path:
    """Write the page of a model; where it is."""
    file, shape = MODELS[name]
    model = opinfo.load(path(name), {"x": shape})
    planned = opinfo.plan(model, {"nn.conv2d": ["NHWC"]})
    folder.mkdir(exist_ok=True)
    out = folder / f"{name}.html"
    planned.html(out, f"{file} {shape}")
    print(f"{name}: {planned.summary()}")
    return out


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        print(write(name, BUILD))
