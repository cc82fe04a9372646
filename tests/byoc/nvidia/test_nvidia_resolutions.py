"""A vision transformer for images of any size: one build over the stubs, right for each size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import tvm

import opinfo
from opinfo.byoc.backends.nvidia.attention import attention
from opinfo.byoc.compile import CompiledModule, compile_module

from ...common.kept_objects import keep_objects
from .test_nvidia import on_stub

WIDTH, HEADS, PATCH, SIDE = 32, 2, 4, 8


class AnySize(torch.nn.Module):
    """Patches, positions that are sliced, a token in front, one block.

    torch exports it for fewer patches a side than `SIDE`, where the slice is not contiguous.
    """

    def __init__(self) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.positions = torch.nn.Parameter(torch.randn(1, SIDE, SIDE, WIDTH) / 8)
        self.token = torch.nn.Parameter(torch.randn(1, 1, WIDTH) / 8)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(3))
        self.qkv, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 64), torch.nn.Linear(64, WIDTH)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).permute(0, 2, 3, 1)
        x = (x + self.positions[:, : x.shape[1], : x.shape[2]]).flatten(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        batch, count, _ = x.shape
        qkv = self.qkv(self.norms[0](x)).reshape(batch, count, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, count, WIDTH))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))
        return self.norms[2](x)[:, 0]


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    return AnySize().eval()


@pytest.fixture(scope="module")
def built(network: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CompiledModule]:
    from torch.export import Dim

    folder = tmp_path_factory.mktemp("any_size")
    high, wide = (Dim(name, min=2, max=SIDE - 1) for name in ("high", "wide"))
    dims = ({0: Dim("batch", min=1, max=4), 2: PATCH * high, 3: PATCH * wide},)
    halves = torch.nn.Module.half(network)
    with torch.no_grad():
        program = torch.export.export(halves, (torch.randn(2, 3, 12, 20).half(),),
                                      dynamic_shapes=dims, strict=False)  # fmt: skip
    torch.export.save(program, folder / "model.pt2")
    with pytest.MonkeyPatch.context() as patch:
        keep_objects(patch)
        patch.setenv("OPINFO_CACHE", str(folder))
        patch.setenv("OPINFO_CUBLASLT_ROWS", "32")
        patch.setattr(attention, "missing", lambda: None)
        mod = opinfo.load(folder / "model.pt2")
        yield compile_module(mod, [on_stub("cudnn"), on_stub("cublaslt")])


def test_attention_and_all_products_are_regions(built: CompiledModule) -> None:
    taken = Counter((t.backend, t.pattern) for t in built.dispatched.taken)
    assert taken == {("cublaslt", "matmul_float16"): 5, ("cudnn", "attention_float32"): 1}
    left = {o.op for o in built.dispatched.left}
    assert left.isdisjoint({"relax.matmul", "relax.nn.conv2d", "relax.nn.softmax"})


@pytest.mark.parametrize("shape", [(1, 2, 2), (2, 3, 5), (4, 7, 6), (3, 2, 7), (2, 3, 5)])
def test_one_library_is_right_for_every_size(
    shape: tuple[int, int, int], built: CompiledModule, network: Any
) -> None:
    batch, high, wide = shape
    image = torch.randn(batch, 3, PATCH * high, PATCH * wide).half()
    with torch.no_grad():
        expected = network.half().float()(image.float()).numpy()
    (found,) = built.machine()["main"](tvm.runtime.tensor(image.numpy()))
    assert np.abs(found.numpy() - expected).max() < 1e-2 * np.abs(expected).max()
