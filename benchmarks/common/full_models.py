"""Models of original size with all of their weights, and seeded inputs.

The CNNs of the onnx wheel (`resnet50` …) have seeded weights, PP-OCRv4's `ocr_det`, `ocr_rec` and
`ocr_cls` their own. `torch:NAME` are torch modules with seeded weights: `torch:bert` is as large as
BERT-base, of 128 tokens, `torch:vit` as ViT-B/16; the others are those of
`benchmarks.common.nets`. Images are 224x224.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TORCH = "torch:"
SIZE, TOKENS = 224, 128
MODELS = ("squeezenet", "shufflenet", "resnet50", "inception_v1", "inception_v2", "densenet121",
          "bvlc_alexnet", "zfnet512", "vgg19", "ocr_det", "ocr_rec", "ocr_cls", "torch:resnet18",
          "torch:mobilenet_v2", "torch:mobilenet_v3", "torch:unet", "torch:bert",
          "torch:vit")  # fmt: skip


def torch_model(name: str) -> tuple[Any, dict[str, Any]] | None:
    """Return the torch module in evaluation mode and its keyword inputs; None for other models."""
    if not name.startswith(TORCH):
        return None
    from benchmarks.common import nets

    bare = name.removeprefix(TORCH)
    return _base(bare) if bare in ("bert", "vit") else nets.torch_model(bare, SIZE)


def _base(name: str) -> tuple[Any, dict[str, Any]]:
    """Return a model of the default size of `transformers`, that of the paper's base model."""
    import torch
    import transformers

    from benchmarks.common import nets

    kind = {"bert": "Bert", "vit": "ViT"}[name]
    config = getattr(transformers, f"{kind}Config")()
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(config).eval()
    nets.randomise(model)
    if name == "vit":
        return model, {"pixel_values": torch.randn(1, 3, SIZE, SIZE)}
    return model, {"input_ids": torch.randint(0, config.vocab_size, (1, TOKENS))}


def onnx_model(name: str) -> tuple[Any, dict[str, Array]]:
    """Return the model as ONNX with static shapes, and inputs by name."""
    if name.startswith(TORCH):
        return _exported(name)
    import onnx
    from onnx import numpy_helper

    from tests import models
    from tests.models import light, ocr

    if name in ocr.FILES:
        return _static(onnx.load(ocr.path(name)), "x", ocr.FILES[name][1]), inputs(name)
    model = onnx.load(light.path(name))
    fills = [n for n in model.graph.node if n.op_type == "ConstantOfShape"]
    for fill, array in zip(fills, models.weights(name), strict=True):
        model.graph.initializer.append(numpy_helper.from_array(array, fill.output[0]))
        model.graph.node.remove(fill)
    model.ir_version = max(model.ir_version, 4)  # in earlier versions, weights are inputs too
    return model, inputs(name)


def _static(model: Any, name: str, shape: tuple[int, ...]) -> Any:
    import onnxslim

    return onnxslim.slim(model, input_shapes=[f"{name}:{','.join(map(str, shape))}"])


def inputs(name: str, seed: int = 1) -> dict[str, Array]:
    """Return seeded inputs by their names in the file; tokens are the torch model's sample."""
    pair = torch_model(name)
    if pair is not None:
        return {key: _drawn(value, seed) for key, value in pair[1].items()}
    import onnx

    from tests import models
    from tests.models import light, ocr

    if name in ocr.FILES:
        drawn = np.random.default_rng(seed).standard_normal(ocr.FILES[name][1])
        return {"x": drawn.astype("float32")}
    model = onnx.load(light.path(name))
    weights = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in weights]
    return dict(zip(names, models.inputs(name, seed=seed), strict=True))


def _drawn(value: Any, seed: int) -> Array:
    array: Array = value.numpy()
    if array.dtype.kind != "f":
        return array
    return np.asarray(np.random.default_rng(seed).standard_normal(array.shape), "float32")


def _exported(name: str) -> tuple[Any, dict[str, Array]]:
    import onnx
    import torch

    pair = torch_model(name)
    assert pair is not None
    net, sample = pair
    (value,) = sample.values()
    if "input_ids" in sample:
        net, sample = by_tokens(net), {"tokens": value}
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(net, (), str(path), kwargs=sample, dynamo=False, opset_version=18)
        model = onnx.load(path)
    (parameter,) = model.graph.input
    return model, {parameter.name: value.numpy()}


def by_tokens(model: Any) -> Any:
    """Wrap a language model as a function of its tokens with a mask, as the exporter requires."""
    import torch

    class ByTokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> Any:
            mask = torch.ones_like(tokens)
            return self.model(input_ids=tokens, attention_mask=mask)[0]

    return ByTokens()


def save(name: str, folder: Path) -> tuple[Path, dict[str, tuple[int, ...]]]:
    """Write the file that `opinfo compile` reads; return its path and the shapes to pass."""
    pair = torch_model(name)
    if pair is not None:
        import torch

        path = folder / "model.pt2"
        with torch.no_grad():
            torch.export.save(torch.export.export(pair[0], (), pair[1], strict=False), path)
        return path, {}
    import onnx

    from tests.models import ocr

    if name in ocr.FILES:
        return ocr.path(name), {"x": ocr.FILES[name][1]}
    path = folder / "model.onnx"
    onnx.save(onnx_model(name)[0], path)
    return path, {}
