"""Time one case: python -m benchmarks.gpu.language.times DIR CASE [SIZES]"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tvm
from tvm import relax

from benchmarks.gpu.kernel_profile import profile
from benchmarks.gpu.time_model import _add, _apart, _times

from .builds import STEPS, WAYS, case
from .in_torch import random_weights, reference, static_decode
from .llama import Sizes


def machine(path: Path, hidden: Any, past: list[Any], weights: list[Any]) -> Callable[[], Any]:
    """The library's `main` on tensors that are on the GPU."""
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cuda(0))
    put = tvm.runtime.from_dlpack
    inputs = [put(hidden), *([[put(t) for t in past]] if past else [])]
    values = [put(w) for w in weights]
    main = vm["main"]
    return lambda: main(*inputs, *values)


def measure(folder: Path, name: str, sizes: Sizes) -> dict[str, Any]:
    """The row of a case."""
    form, _, step = name.partition("-")
    tokens, before = STEPS[step]
    _, params = case(name, sizes)
    weights = random_weights(params)
    hidden = torch.randn(1, tokens, sizes.width, device="cuda").half()
    shape = (1, before, sizes.shared, sizes.head)
    past = [torch.randn(shape, device="cuda").half() for _ in range(2 * sizes.layers if before else 0)]  # fmt: skip # noqa: E501
    row: dict[str, Any] = {"name": name, "device": torch.cuda.get_device_name()}
    row["weight_bytes"] = sum(w.numel() * w.element_size() for w in weights.values())
    runs: dict[str, Callable[[], Any]] = {}
    with torch.no_grad():
        exact = reference(sizes, weights, hidden, past).double().cpu()
        ordered = [weights[n] for n, _, _ in params]
        for way in WAYS:
            path = folder / f"{name}-{way}.so"
            if path.exists():
                _add(runs, row, way, lambda p=path: machine(p, hidden, past, ordered))
        if form == "float16" and step == "decode":
            _add(runs, row, "torch", lambda: static_decode(sizes, weights, hidden, past))
        for key, run in list(runs.items()):
            try:
                row[f"{key}_apart"] = _apart(run(), exact)
            except Exception as error:
                row[f"{key}_error"] = f"{type(error).__name__}: {str(error)[-300:]}"
                del runs[key]
        row |= _times(runs)
        for key, run in runs.items():
            row[f"{key}_kernels"] = profile(run).row()["kernels"]
    return row


def main() -> None:
    """Write the row DIR/CASE.time.json."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    sizes = replace(Sizes(), **json.loads(sys.argv[3])) if len(sys.argv) > 3 else Sizes()
    row = measure(folder, name, sizes)
    Path(folder / f"{name}.time.json").write_text(json.dumps(row, indent=1))
    shown = {k: v[:14] if k.endswith("_kernels") else v for k, v in row.items()}
    print("ROW", json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
