"""The models that layouts are planned for, as Relax modules with seeded random constants.

`module(name)` returns the module before `LegalizeOps`, with constant weights; `inputs(name)` seeded
values of its parameters; `torch_model(name)`, for models from torch, the torch module and its
sample inputs. `INPUTS` describes the inputs.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tvm

import opinfo

from . import built

IMAGE, TOKENS = "float32[1, 3, 64, 64]", "int64[1, 16]"
CONVNETS = ("resnet18", "mobilenet_v2", "mobilenet_v3", "shufflenet", "convnext", "unet", "yolo")
TOKEN_MODELS = ("bert", "gpt2", "llama")
TRANSFORMERS = ("vit", "swin", *TOKEN_MODELS)
BUILT: dict[str, Callable[[], Any]] = {"nhwc_import": built.nhwc_import, "mixed": built.mixed}
NAMES = (*CONVNETS, *BUILT, "coatnet", *TRANSFORMERS)
#: Models outside the table.
MORE = ("resnet50",)
INPUTS = {
    **dict.fromkeys((*CONVNETS, *MORE, "coatnet", "vit", "swin"), IMAGE),
    "nhwc_import": "float32[1, 64, 64, 3]",
    "mixed": "float32[1, 3, 32, 32]",
    **dict.fromkeys(TOKEN_MODELS, TOKENS),
}


def module(name: str, size: int = 64) -> tvm.IRModule:
    """Return the Relax module of a model, for square images of ``size``. Raises ``KeyError``.

    Modules from torch are cached in a folder, by a hash of the code that builds them.
    """
    if name in BUILT:
        return BUILT[name]()
    if name not in INPUTS:
        raise KeyError(f"unknown model {name!r}; expected one of {', '.join((*NAMES, *MORE))}")
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "opinfo-layouts"
    path = root / f"{name}-{size}-{_key()}.json"
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(tvm.ir.save_json(_imported(name, size)))
        os.replace(part, path)
    return tvm.ir.load_json(path.read_text())


@functools.cache
def _key() -> str:
    files = [*Path(__file__).parent.glob("*.py")]
    files += (Path(opinfo.__file__).parent / "frontend").glob("*.py")
    parts = [path.read_text() for path in sorted(files)]
    parts += [version(package) for package in ("apache-tvm", "torch", "transformers")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _imported(name: str, size: int) -> tvm.IRModule:
    import torch

    from opinfo.frontend.checks.normalise_module import tidy
    from opinfo.frontend.formats.from_torch import from_program

    model, sample = torch_model(name, size)
    with torch.no_grad():
        program = torch.export.export(model, (), sample, strict=False)
    return tidy(from_program(program))


def inputs(name: str, seed: int = 0, size: int = 64) -> list[np.ndarray[Any, Any]]:
    """Return seeded values of the parameters of `main`."""
    rng = np.random.default_rng(seed)
    dtype, _, shape = INPUTS[name].rstrip("]").partition("[")
    extents = [int(e) for e in shape.split(",")]
    if INPUTS[name] == IMAGE:
        extents[2:] = [size, size]
    if dtype == "int64":
        return [rng.integers(0, 97, extents)]
    return [rng.standard_normal(extents).astype(dtype)]


def torch_model(name: str, size: int = 64) -> tuple[Any, dict[str, Any]]:
    """Return the seeded torch module of a model in evaluation mode, and its keyword inputs."""
    import torch

    from . import attention, convnets

    torch.manual_seed(0)
    if name in TRANSFORMERS:
        model, sample = attention.pretrained(name)
    elif name == "coatnet":
        model, sample = attention.coatnet(), {"input": torch.randn(1, 3, 64, 64)}
    else:
        factory = {"unet": convnets.UNet, "yolo": convnets.Yolo}.get(name)
        model = (factory or getattr(convnets, name))()
        key = "input" if isinstance(model, torch.nn.Sequential) else "x"
        sample = {key: torch.randn(1, 3, size, size)}
    randomise(model)
    return model.eval(), sample


def randomise(model: Any) -> None:
    """Randomise weights: scales and variances differ from 1, biases and means from 0."""
    import torch

    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if not tensor.is_floating_point():
                continue
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 1.5)
            elif tensor.ndim <= 1:
                tensor.add_(torch.randn_like(tensor) * 0.1)
            elif tensor.ndim == 3:
                tensor.add_(torch.randn_like(tensor) * 0.1)
