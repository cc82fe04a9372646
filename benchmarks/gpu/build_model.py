"""Compile one model: python -m benchmarks.gpu.build_model DIR NET-bN DTYPE True|False"""

from __future__ import annotations

import json
import sys
import time
import traceback
import zlib
from pathlib import Path
from typing import Any

import torch

from .architectures import SETS

BACKENDS = ("cudnn", "cublaslt", "tvm")


def network(name: str, dtype: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the seeded module and its inputs, on the CPU."""
    net, _, batch = name.rpartition("-b")
    torch.manual_seed(zlib.crc32(net.encode()))
    to = getattr(torch, dtype)
    spec = next(nets[net] for nets in SETS.values() if net in nets)
    module = spec.build()
    _scale(module, spec.inputs(4))
    module = module.eval().to(to)
    inputs = spec.inputs(int(batch))
    return module, tuple(x.to(to) if x.is_floating_point() else x for x in inputs)


def _scale(module: Any, inputs: tuple[Any, ...]) -> None:
    """Set weights of zeros, which hide what is before them, and the statistics of batch norms.

    Without them, outputs of deep networks with random weights leave the range of half precision.
    """
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim > 1 and not weight.any():
                weight.normal_(std=0.02)
        for norm in norms:
            norm.train().momentum = None
        if norms:
            module(*inputs)


def main() -> None:
    """Write DIR/NAME-DTYPE.so, .tvm.so and the row .build.json."""
    folder, name, dtype, default = Path(sys.argv[1]), *sys.argv[2:5]
    stem = folder / f"{name}-{dtype}"
    row: dict[str, Any] = {"name": name, "dtype": dtype}
    module, inputs = network(name, dtype)
    try:
        begun = time.perf_counter()
        program = f"{stem}.pt2"
        with torch.no_grad():
            torch.export.save(torch.export.export(module, inputs, strict=False), program)
        import opinfo

        mod = opinfo.load(program)
        row["read_s"] = time.perf_counter() - begun
        Path(program).unlink()
        _ours(mod, stem, row)
        Path(f"{stem}.build.json").write_text(json.dumps(row, indent=1))
        if default == "True":
            _default(mod, stem, row)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {str(error).strip()[:300]}"
        Path(f"{stem}.err").write_text(traceback.format_exc())
    Path(f"{stem}.build.json").write_text(json.dumps(row, indent=1))
    print(json.dumps(row), flush=True)


def _ours(mod: Any, stem: Path, row: dict[str, Any]) -> None:
    import opinfo

    begun = time.perf_counter()
    compiled = opinfo.compile(mod, list(BACKENDS), target="cuda")
    compiled.export(f"{stem}.so")
    row["compile_s"] = time.perf_counter() - begun
    assert compiled.dispatched is not None
    row["summary"] = compiled.dispatched.summary()


def _default(mod: Any, stem: Path, row: dict[str, Any]) -> None:
    import tvm

    begun = time.perf_counter()
    try:
        target = tvm.target.Target.from_device(tvm.cuda(0))
        with tvm.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
            tvm.compile(mod, target=target).export_library(f"{stem}.tvm.so")
        row["tvm_s"] = time.perf_counter() - begun
    except Exception as error:
        row["tvm_error"] = f"{type(error).__name__}: {str(error).strip()[-300:]}"


if __name__ == "__main__":
    main()
