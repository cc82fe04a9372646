"""Models of kinds on which runtimes are strong, in neither half of the zoo: work may look at them.

They are quantised by ONNX Runtime's own tools, as authors do, or small enough for the time of a
call to count. `saved(name, folder)` writes the file and returns its inputs.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Proxy:
    """A net of `benchmarks.zoo.modules.proxy_nets` or of timm, and how it is quantised.

    Attributes:
        build: Returns the torch module and its inputs by name; seed torch before.
        quantized: ``dynamic``, ``static`` (QDQ), or empty.
    """

    build: Callable[[], tuple[Any, dict[str, Any]]]
    quantized: str = ""


def _net(name: str, **inputs: Callable[[Any], Any]) -> Callable[[], tuple[Any, dict[str, Any]]]:
    def build() -> tuple[Any, dict[str, Any]]:
        import torch

        from ..modules import proxy_nets

        return getattr(proxy_nets, name)(), {key: f(torch) for key, f in inputs.items()}

    return build


def _image(name: str) -> tuple[Any, dict[str, Any]]:
    import torch

    from .timm_models import timm

    return timm().create_model(name, pretrained=False), {"x": torch.randn(1, 3, 224, 224)}


_ENCODER = _net("Encoder", ids=lambda t: t.randint(0, 500, (1, 64)),
                mask=lambda t: t.ones(1, 64, dtype=t.int64))  # fmt: skip
_DECODER = _net("Decoder", ids=lambda t: t.randint(0, 500, (1, 16)),
                memory=lambda t: t.randn(1, 40, 256))  # fmt: skip
_TAGGER = _net("Tagger", ids=lambda t: t.randint(0, 300, (1, 32)))
_FACE = _net("FaceMesh", image=lambda t: t.randn(1, 192, 192, 3))
_GRAPH = _net("GraphAttention", nodes=lambda t: t.randn(40, 16),
              source=lambda t: t.randint(0, 40, (120,)),
              target=lambda t: t.randint(0, 40, (120,)))  # fmt: skip

PROXIES: dict[str, Proxy] = {
    "proxies/encoder": Proxy(_ENCODER),
    "proxies/encoder_dynamic": Proxy(_ENCODER, "dynamic"),
    "proxies/encoder_qdq": Proxy(_ENCODER, "static"),
    "proxies/decoder": Proxy(_DECODER),
    "proxies/decoder_dynamic": Proxy(_DECODER, "dynamic"),
    "proxies/tagger": Proxy(_TAGGER),
    "proxies/tagger_dynamic": Proxy(_TAGGER, "dynamic"),
    "proxies/face_mesh": Proxy(_FACE),
    "proxies/face_mesh_qdq": Proxy(_FACE, "static"),
    "proxies/graph_attention": Proxy(_GRAPH),
    "proxies/mobilenetv2": Proxy(lambda: _image("mobilenetv2_100")),
    "proxies/mobilenetv2_qdq": Proxy(lambda: _image("mobilenetv2_100"), "static"),
    "proxies/semnasnet": Proxy(lambda: _image("semnasnet_075")),
}


def saved(name: str, folder: Path) -> tuple[Path, Arrays]:
    """Write the ONNX file of `PROXIES[name]` to a folder; return its path and inputs."""
    import torch

    from .nets import _randomise

    proxy = PROXIES[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    module, inputs = proxy.build()
    _randomise(module)
    path = folder / (name.replace("/", "-") + ".onnx")
    with torch.no_grad():
        torch.onnx.export(module.eval(), tuple(inputs.values()), path, input_names=list(inputs),
                          dynamo=False, opset_version=17)  # fmt: skip
    arrays = {key: value.numpy() for key, value in inputs.items()}
    if proxy.quantized:
        path = _quantized(path, proxy.quantized, arrays)
    return path, arrays


def _quantized(path: Path, how: str, inputs: Arrays) -> Path:
    """Quantise a file by ONNX Runtime's tools, with one set of inputs to calibrate by."""
    from onnxruntime.quantization import (
        CalibrationDataReader,
        QuantType,
        quantize_dynamic,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            self.left: Iterator[Arrays] = iter([inputs])

        def get_next(self) -> Any:
            return next(self.left, None)

    out = path.with_suffix(f".{how}.onnx")
    with _only_errors():
        if how == "dynamic":
            quantize_dynamic(path, out, weight_type=QuantType.QInt8)
            return out
        ready = path.with_suffix(".ready.onnx")
        quant_pre_process(path, ready, skip_symbolic_shape=True)
        quantize_static(ready, out, Once(), activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8, per_channel=True)  # fmt: skip
        return out


@contextmanager
def _only_errors() -> Iterator[None]:
    """Keep warnings of the quantiser off the log, and those of others afterwards on it."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    try:
        yield
    finally:
        root.setLevel(level)
