"""Real model structures as Relax modules, before `LegalizeOps`.

`MODELS[name]()` gives the module. Weights are trailing parameters of `main`, after the
`num_input` inputs, so a module stays small as JSON; `weights(name)` and `inputs(name)` give
seeded numpy values for them. What an importer needs seconds for is kept in a cache folder, keyed
by the text of the code that builds it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import tvm
from tvm_ffi.serialization import from_json_graph_str

import opinfo

from . import light, ocr, transformer
from .weights import Array, Spec, draw

LIGHT = tuple(light.FILES)
OCR = tuple(ocr.FILES)
TRANSFORMERS = tuple(transformer.CONFIGS)
SYMBOLIC = tuple(f"{name}_n" for name in TRANSFORMERS)
NAMES = (*LIGHT, *OCR, *TRANSFORMERS, *SYMBOLIC)
#: Models whose operators together go all ways that those of all models go.
PART = ("bvlc_alexnet", "inception_v1", "inception_v2", "shufflenet", "squeezenet", "ocr_det",
        "ocr_rec", "bert", "gpt2", "swin", "bert_n", "gpt2_n", "swin_n")  # fmt: skip


def _build(name: str) -> tuple[tvm.IRModule, list[Spec]]:
    if name in LIGHT:
        return light.build(name)
    if name in OCR:
        return ocr.build(name)
    return transformer.build(name.removesuffix("_n"), symbolic=name.endswith("_n"))


def module(name: str) -> tvm.IRModule:
    """The Relax module of a model, before `LegalizeOps`."""
    # `tvm.ir.load_json` would first rename what older versions of TVM wrote.
    return from_json_graph_str((_cached(name) / "module.json").read_text())


MODELS: dict[str, Callable[[], tvm.IRModule]] = {
    name: functools.partial(module, name) for name in NAMES
}


def weights(name: str) -> list[Array]:
    """Seeded (for PP-OCRv4: real) values of the parameters after the inputs, in their order."""
    folder = _cached(name)
    specs = json.loads((folder / "weights.json").read_text())
    with np.load(folder / "weights.npz") as stored:
        return [stored[s["stored"]] if "stored" in s else draw(i, s) for i, s in enumerate(specs)]


def inputs(name: str, batch: int = 2, seed: int = 0) -> list[Array]:
    """Seeded values of the inputs; `batch` is used for symbolic dimensions."""
    rng = np.random.default_rng(seed)
    main = module(name)["main"]
    values = []
    for param in main.params[: int(main.attrs["num_input"])]:
        shape = [getattr(dim, "value", batch) for dim in param.ty.shape.values]
        dtype = str(param.ty.dtype)
        if dtype.startswith("int"):
            values.append(rng.integers(0, transformer.VOCABULARY, shape).astype(dtype))
        else:
            values.append(rng.standard_normal(shape).astype(dtype))
    return values


def _cached(name: str) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "opinfo-tests"
    folder = root / f"{name}-{_key()}"
    if (folder / "weights.json").exists():
        return folder
    mod, specs = _build(name)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {s["stored"]: s["value"] for s in specs if "stored" in s}
    listed = [{k: v for k, v in s.items() if k != "value"} for s in specs]
    own = f".{os.getpid()}"  # several test workers may build the same model
    (folder / f"module{own}").write_text(tvm.ir.save_json(mod))
    with (folder / f"npz{own}").open("wb") as file:
        np.savez(file, **arrays)
    (folder / f"weights{own}").write_text(json.dumps(listed))
    for part, target in [
        ("module", "module.json"),
        ("npz", "weights.npz"),
        ("weights", "weights.json"),
    ]:
        os.replace(folder / f"{part}{own}", folder / target)
    return folder


@functools.cache
def _key() -> str:
    sources = [*Path(__file__).parent.glob("*.py")]
    sources += (Path(opinfo.__file__).parent / "frontend").glob("*.py")
    told = [path.read_text() for path in sorted(sources)]
    told += [
        version(package) for package in ("apache-tvm", "torch", "transformers", "onnx", "onnxslim")
    ]
    return hashlib.sha256("\0".join(told).encode()).hexdigest()[:16]
