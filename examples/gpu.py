"""Compile a model in float16 for the GPU of this machine, run it, deploy it: python examples/gpu.py

It needs `pip install "opinfo[cuda]" "torch>=2.11"`, g++ and a driver; see docs/guides/nvidia.md.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Block(torch.nn.Module):
    """A convolution with what follows it, then attention over the pixels."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(8, width, 3, padding=1)
        self.norm = torch.nn.LayerNorm(width)
        self.project = torch.nn.Linear(width, 3 * width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x)).flatten(2).transpose(1, 2)
        q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2)
                   for t in self.project(self.norm(y)).chunk(3, 2))  # fmt: skip
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y + out.transpose(1, 2).flatten(2)


def main() -> int:
    """Run the page's example from top to bottom."""
    folder = Path(tempfile.mkdtemp())
    torch.manual_seed(0)
    module, x = Block().eval().half(), torch.randn(2, 8, 16, 16).half()

    # --- Compile
    import opinfo

    with torch.no_grad():
        torch.export.save(torch.export.export(module, (x,)), folder / "block.pt2")
    mod = opinfo.load(folder / "block.pt2")
    compiled = opinfo.compile(mod, target="cuda")
    print(compiled.report())

    # --- Run
    with torch.no_grad():
        expected = module.float()(x.float()).numpy()
    y = compiled.run(x.numpy())
    apart = np.abs(y - expected).max() / np.abs(expected).max()
    print(f"{apart:.0e} apart from float32")

    # --- Deploy
    compiled.export(folder / "block.so")

    import tvm
    from tvm import relax

    device = tvm.cuda(0)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / "block.so")), device)
    on_gpu = tvm.runtime.tensor(x.numpy(), device)
    (first,), (second,) = machine["main"](on_gpu), machine["main"](on_gpu)
    assert (first.numpy() == second.numpy()).all()  # the second call does not overwrite the first

    _with_torch(machine, x)
    shutil.rmtree(folder)
    assert compiled.dispatched is not None
    left = {op.op for op in compiled.dispatched.left}
    failed = compiled.dispatched.failed
    return int(apart > 5e-3 or bool(failed) or bool(left & {"relax.nn.conv2d", "relax.matmul"}))


def _with_torch(machine: Any, x: torch.Tensor) -> None:
    """Call the library on tensors of torch, and on its stream."""
    if not torch.cuda.is_available():
        print("this torch is without CUDA: not run on its tensors")
        return
    # --- Tensors of torch
    import tvm
    import tvm_ffi

    with tvm_ffi.use_torch_stream(torch.cuda.stream(torch.cuda.Stream())):
        on_gpu = x.cuda()
        (result,) = machine["main"](tvm.runtime.from_dlpack(on_gpu))
        out = torch.from_dlpack(result)
    torch.cuda.synchronize()
    print(f"a tensor of {tuple(out.shape)} on {out.device}")


if __name__ == "__main__":
    sys.exit(main())
