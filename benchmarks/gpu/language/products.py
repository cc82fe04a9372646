"""Time products with weights of few bits alone: python -m benchmarks.gpu.language.products

One line a product: microseconds of a call with opinfo's kernel, the share of the bandwidth of a
copy that it reads its operands at, and the same with TVM's rules. Calls go over copies of the
weights that do not fit into the cache, in CUDA graphs.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.cuda_target import cuda_target
from benchmarks.gpu.gpu_kernels.kernel_builds import by_tvm, compiled
from benchmarks.gpu.gpu_kernels.kernel_times import timed
from benchmarks.gpu.language.product_runs import parser, run

#: Columns and depth: the products of Llama 8B, and those joined.
SIZES = ((4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (14336, 4096))
#: Rows, and bits of a weight.
CASES = ((1, 4), (2, 4), (4, 4), (8, 4), (1, 8), (1, 16))
GROUP = 32


def prim_func(rows: int, columns: int, depth: int, bits: int) -> Any:
    """A PrimFunc that dequantises by group and multiplies, as two blocks."""
    from tvm import te, tirx

    x = te.placeholder((1, rows, depth), "float16", name="x")
    r = te.reduce_axis((0, depth), "r")

    def multiplied(w: Any) -> Any:
        return te.compute((1, rows, columns), lambda b, i, j: te.sum(x[b, i, r] * w[j, r], r), "y")

    if bits == 16:
        w = te.placeholder((columns, depth), "float16", name="w")
        return te.create_prim_func([x, w, multiplied(w)])
    per, middle = 32 // bits, (1 << bits - 1) - 1
    words = te.placeholder((columns, depth // per), "uint32", name="words")
    scale = te.placeholder((columns, depth // GROUP), "float16", name="scale")

    def weight(n: Any, k: Any) -> Any:
        digit = words[n, k // per] >> tirx.Cast("uint32", k % per * bits)
        digit = tirx.bitwise_and(digit, tirx.const((1 << bits) - 1, "uint32"))
        value = tirx.Cast("float16", digit) - tirx.const(middle, "float16")
        return value * scale[n, k // GROUP]

    w = te.compute((columns, depth), weight, name="dequantize")
    return te.create_prim_func([x, words, scale, multiplied(w)])


Job = tuple[int, int, int, int, tuple[int, int, int] | None]


def build(job: Job, folder: str, arch: str) -> dict[str, Any]:
    """Build a product with a tile, or by TVM's rules."""

    from opinfo.byoc.backends.nvidia.grouped_weights.gemv_kernel import GemvTile, gemv_kernel
    from opinfo.byoc.backends.nvidia.grouped_weights.grouped_product import (
        grouped_product,
        plain_product,
    )
    from opinfo.byoc.backends.nvidia.schedules.gpu_schedule import DONE
    from opinfo.byoc.backends.nvidia.schedules.program.thread_loops import kernels

    target = cuda_target(arch)
    rows, columns, depth, bits, tile = job
    func = prim_func(rows, columns, depth, bits)

    def ours() -> Any:
        what = GemvTile(*tile) if tile is not None and tile[0] else None
        nest, buffers = gemv_kernel((plain_product if bits == 16 else grouped_product)(func), what)
        return [kernels(func, [nest], buffers).with_attr(DONE, True)]

    path = str(Path(folder) / ("_".join(map(str, job[:4])) + f"_{tile}.so".replace(", ", "-")))
    schedule = ours if tile is not None else lambda: [by_tvm(func, target)]
    return {"job": job, "path": compiled(schedule, target, path)}


def jobs(tiles: bool) -> list[Job]:
    """All products by TVM's rules, with the default tile (0, 0, 0), and with some others."""
    out: list[Job] = []
    for columns, depth in SIZES:
        for rows, bits in CASES:
            out += [(rows, columns, depth, bits, None), (rows, columns, depth, bits, (0, 0, 0))]
            warps = depth * bits // 128 // 32
            others = tiles and bits in (4, 16) and rows == 1 and columns != 14336
            for each in (1, 2, 4, 8) if others else ():
                for splits in sorted({s for s in (1, 2, 4, 7, 8, 14) if warps % s == 0}):
                    if each * rows <= 32:
                        out.append(
                            (rows, columns, depth, bits, (each, splits, max(1, 4 // splits)))
                        )
    return out


def measure(built: dict[str, Any], limit: float) -> dict[str, Any]:
    """Time one build on the device."""
    import torch
    import tvm

    rows, columns, depth, bits, _ = built["job"]
    row: dict[str, Any] = {"job": built["job"]}
    if not built["path"].endswith(".so"):
        return row | {"note": built["path"]}
    torch.manual_seed(0)
    size = columns * depth * bits // 8 + (columns * depth // GROUP * 2 if bits < 16 else 0)
    copies = min(24, max(2, -(-160 * 2**20 // size)))
    x = torch.randn(1, rows, depth, device="cuda").half()
    out = torch.empty(1, rows, columns, dtype=torch.float16, device="cuda")
    main = tvm.runtime.load_module(built["path"])["k0"]
    sets = [_weights(columns, depth, bits) for _ in range(copies)]
    put = tvm.runtime.from_dlpack
    calls = [partial(main, x, *(put(t) for t in tensors), out) for tensors, _ in sets]
    calls[0]()
    torch.cuda.synchronize()
    exact = x[0].double() @ sets[0][1]().double().T
    row["apart"] = float((out[0].double() - exact).abs().max() / exact.abs().max())
    row["us"] = timed(torch, calls, 7) * 1e6
    row["share"] = (size + x.numel() * 2 + out.numel() * 2) / (row["us"] * 1e-6) / limit
    if bits == 16:
        torch_calls = [partial(torch.nn.functional.linear, x, t[0]) for t, _ in sets]
        row["torch_us"] = timed(torch, torch_calls, 7) * 1e6
    return row


def _weights(columns: int, depth: int, bits: int) -> tuple[list[Any], Any]:
    """Random weights as tensors of the kernel, and a function that returns them in float32."""
    import torch

    if bits == 16:
        weight = (torch.randn(columns, depth, device="cuda") / 64).half()
        return [weight], weight.float
    shape = (columns, depth * bits // 32)
    words = torch.randint(-(2**31), 2**31 - 1, shape, device="cuda", dtype=torch.int32)
    scale = torch.rand(columns, depth // GROUP, device="cuda").half() / 64

    def unpacked() -> Any:
        shifts = torch.arange(32 // bits, device="cuda", dtype=torch.int32) * bits
        digits = (words[..., None] >> shifts) & ((1 << bits) - 1)
        values = digits.reshape(columns, depth).float() - ((1 << bits - 1) - 1)
        return values * scale.float().repeat_interleave(GROUP, 1)

    return [words.view(torch.uint32), scale], unpacked


def main() -> None:
    """Build in parallel, then time."""
    options = parser("benchmarks.gpu.language.products")
    options.add_argument("--tiles", action="store_true", help="also other tiles than the default")
    chosen = options.parse_args()
    run(chosen, jobs(chosen.tiles), build, measure)


if __name__ == "__main__":
    main()
