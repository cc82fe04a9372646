"""The layouts of a real model before and after planning, as a page.

    python -m examples.plan_page [FOLDER]

Plans the text detector of PP-OCRv4 (from the wheel of rapidocr-onnxruntime, with its weights) for
convolutions in NHWC and writes `ocr_det.html`: one file, to be opened in any browser. The command
line does the same for any model:

    opinfo plan MODEL --shape x:1,3,320,320 --want conv2d=NHWC --html FILE
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import opinfo
from opinfo.inspection import legalize
from opinfo.planning import plan_model

MODEL, SHAPE = "ch_PP-OCRv4_det_infer.onnx", (1, 3, 320, 320)


def model() -> Path:
    """The ONNX file. Raises FileNotFoundError where the wheel is not installed."""
    spec = find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("pip install --no-deps rapidocr-onnxruntime")
    return Path(spec.origin).parent / "models" / MODEL


def main(folder: Path) -> Path:
    """Write the page; where it is."""
    lowered = legalize(opinfo.load(model(), {"x": SHAPE}))
    found = plan_model(lowered, {"nn.conv2d": ["NHWC"]})
    out = folder / "ocr_det.html"
    out.write_text(found.html(f"{MODEL} {SHAPE}"), encoding="utf-8")
    print(found.summary())
    return out


if __name__ == "__main__":
    print(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
