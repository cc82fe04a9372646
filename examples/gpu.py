"""Compile a model in float16 for the GPU of this machine, run it, deploy it: python examples/gpu.py

It needs `pip install "opinfo[cuda]" "torch>=2.11"`, g++ and a driver; docs/guides/nvidia.md shows
its parts.
"""

import sys

import numpy as np
import torch
import tvm
import tvm_ffi
from tvm import relax

import opinfo


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
        q, k, v = (
            t.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for t in self.project(self.norm(y)).chunk(3, 2)
        )
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y + out.transpose(1, 2).flatten(2)


# --- Compile
module, x = Block().eval().half(), torch.randn(2, 8, 16, 16).half()
with torch.no_grad():
    torch.export.save(torch.export.export(module, (x,)), "block.pt2")
mod = opinfo.load("block.pt2")
compiled = opinfo.compile(mod, target="cuda")
print(compiled.report())

# --- Run
y = compiled.run(x.numpy())
with torch.no_grad():
    expected = module.float()(x.float()).numpy()
apart = np.abs(y - expected).max() / np.abs(expected).max()
print(f"{apart:.0e} apart from float32")

# --- Deploy
compiled.export("block.so")
device = tvm.cuda(0)
machine = relax.VirtualMachine(tvm.runtime.load_module("./block.so"), device)
on_gpu = tvm.runtime.tensor(x.numpy(), device)
(first,), (second,) = machine["main"](on_gpu), machine["main"](on_gpu)
assert (first.numpy() == second.numpy()).all()  # the second call does not overwrite the first

assert compiled.dispatched is not None
left = {op.op for op in compiled.dispatched.left}
assert apart < 5e-3 and not compiled.dispatched.failed
assert not left & {"relax.nn.conv2d", "relax.matmul"}
if not torch.cuda.is_available():
    print("this torch is without CUDA: the library was not run on its tensors")
    sys.exit()

# --- Tensors of torch
with tvm_ffi.use_torch_stream(torch.cuda.stream(torch.cuda.Stream())):
    (result,) = machine["main"](tvm.runtime.from_dlpack(x.cuda()))
    out = torch.from_dlpack(result)
torch.cuda.synchronize()
print(f"a tensor of {tuple(out.shape)} on {out.device}")
