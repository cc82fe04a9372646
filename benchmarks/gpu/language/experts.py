"""Time products of rows with matrices of their experts.

    python -m benchmarks.gpu.language.experts [--json FILE]

The products of Mixtral 8x7B: 8 experts, 2 for a token. One line a product: microseconds of a call
with opinfo's kernel, the share of the bandwidth of a copy that it reads the weights at, the error,
and microseconds with TVM's rule for products with a vector.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.cuda_target import cuda_target
from benchmarks.gpu.gpu_kernels.kernel_builds import compiled
from benchmarks.gpu.gpu_kernels.kernel_times import timed

from .product_runs import parser, run

#: Experts, and the values that share a scale.
EXPERTS, GROUP = 8, 32
#: Columns and depth of the products into and out of an expert; rows: 2 for each token.
SIZES, ROWS = ((28672, 4096), (4096, 14336)), (2, 256, 2048)
#: The most rows for which TVM's rule is timed: it reads the matrix of each row.
ROWS_OF_TVM = 256

HALF = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({lead}, {k}), "float16"), w: T.Buffer(({experts}, {n}, {k}), "float16"),
         ids: T.Buffer((1, {rows}), "int32"), out: T.Buffer(({rows}, {n}), "float16")):
    T.func_attr({{"tirx.noalias": True}})
    for e in T.thread_binding({rows}, thread="blockIdx.y"):
        with T.sblock("expert"):
            ve = T.axis.spatial({rows}, e)
            for i, j in T.grid({n}, {k}):
                with T.sblock("b"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        out[ve, vi] = T.float16(0)
                    out[ve, vi] = out[ve, vi] + x[{row}, vj] * w[ids[0, ve], vi, vj]
"""
PACKED = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer(({lead}, {k}), "float16"), w: T.Buffer(({experts}, {n}, {k} // 8), "uint32"),
         s: T.Buffer(({experts}, {n}, {k} // 32), "float16"), ids: T.Buffer((1, {rows}), "int32"),
         out: T.Buffer(({rows}, {n}), "float16")):
    T.func_attr({{"tirx.noalias": True}})
    for e in T.thread_binding({rows}, thread="blockIdx.y"):
        with T.sblock("expert"):
            ve = T.axis.spatial({rows}, e)
            y = T.sblock_alloc_buffer(({n}, {k}), "float16")
            for i, j in T.grid({n}, {k}):
                with T.sblock("a"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = (T.Cast("float16", w[ids[0, ve], vi, vj // 8]
                        >> T.Cast("uint32", vj % 8 * 4) & T.uint32(15)) - T.float16(7)
                        ) * s[ids[0, {scale}], vi, vj // 32]
            for i, j in T.grid({n}, {k}):
                with T.sblock("b"):
                    vi, vj = T.axis.remap("SR", [i, j])
                    with T.init():
                        out[ve, vi] = T.float16(0)
                    out[ve, vi] = out[ve, vi] + x[{row}, vj] * y[vi, vj]
"""
Job = tuple[int, bool, int, int, str]


def prim_func(text: str, rows: int, shared: bool = False, **parts: Any) -> Any:
    """A PrimFunc as language models write it; ``shared``: all rows have the same activations."""
    import tvm
    from tvm.script import tirx as T

    sizes = {"experts": EXPERTS, "scale": "ve", "row": 0 if shared else "ve", **parts}
    text = text.format(rows=rows, lead=1 if shared else rows, **sizes)
    return tvm.script.from_source(text, {"T": T})


def jobs() -> list[Job]:
    """Each product with opinfo's kernel and with TVM's rule."""
    return [(rows, packed, *size, way) for packed in (True, False) for size in SIZES
            for rows in ROWS for way in ("opinfo", "tvm")
            if way == "opinfo" or rows <= ROWS_OF_TVM]  # fmt: skip


def build(job: Job, folder: str, arch: str) -> dict[str, Any]:
    """Build a product."""
    import tvm
    from tvm.s_tir import dlight as dl

    from opinfo.byoc.backends.nvidia.experts.expert_kernel import expert_scheduled

    target = cuda_target(arch)
    rows, packed, columns, depth, way = job
    func = prim_func(PACKED if packed else HALF, rows, n=columns, k=depth)

    def by_tvm() -> list[Any]:
        with target:
            mod = dl.ApplyDefaultSchedule(dl.gpu.GEMV())(tvm.IRModule({"main": func}))
        return [mod["main"]]

    path = str(Path(folder) / ("_".join(map(str, job)) + ".so"))
    schedule = (lambda: [expert_scheduled(func)]) if way == "opinfo" else by_tvm
    return {"job": job, "path": compiled(schedule, target, path)}


def measure(built: dict[str, Any], limit: float) -> dict[str, Any]:
    """Time one build on the device, and compare some rows with the product in float32."""
    import torch
    import tvm

    rows, packed, columns, depth, _ = built["job"]
    row: dict[str, Any] = {"job": built["job"]}
    if not built["path"].endswith(".so"):
        return row | {"note": built["path"]}
    torch.manual_seed(0)
    stored = _stored(packed, columns, depth)
    x = torch.randn(rows, depth, device="cuda").half()
    out = torch.zeros(rows, columns, dtype=torch.float16, device="cuda")
    # Two rows read other matrices in each of four calls, which do not fit into the cache.
    chosen = [[2 * k % EXPERTS, (2 * k + 3) % EXPERTS] for k in range(4)] if rows == 2 else [
        torch.randint(0, EXPERTS, (rows,)).tolist()]  # fmt: skip
    ids = [torch.tensor([c], dtype=torch.int32, device="cuda") for c in chosen]
    put = tvm.runtime.from_dlpack
    operands = [put(t.view(torch.uint32) if t.dtype == torch.int32 else t) for t in stored]
    main = tvm.runtime.load_module(built["path"])["k0"]
    calls = [partial(main, x, *operands, i, out) for i in ids]
    calls[0]()
    torch.cuda.synchronize()
    apart = [_apart(out[r], _matrix(stored, chosen[0][r]) @ x[r].float())
             for r in range(0, rows, max(1, rows // 16))]  # fmt: skip
    row["apart"] = max(apart)
    row["us"] = timed(torch, calls * (1 if rows == 2 else 4), 5) * 1e6
    size = len(set(chosen[0])) * columns * depth * (9 / 16 if packed else 2)
    return row | {"share": size / (row["us"] * 1e-6) / limit}


def _stored(packed: bool, columns: int, depth: int) -> list[Any]:
    """Random matrices of all experts."""
    import torch

    if not packed:
        shape = EXPERTS, columns, depth
        return [torch.randn(shape, device="cuda", dtype=torch.float16) / 64]
    words = torch.randint(-(2**31), 2**31 - 1, (EXPERTS, columns, depth // 8), device="cuda",
                          dtype=torch.int32)  # fmt: skip
    return [words, torch.rand(EXPERTS, columns, depth // GROUP, device="cuda").half() / 64]


def _matrix(stored: list[Any], expert: int) -> Any:
    """The matrix of an expert in float32."""
    import torch

    if len(stored) == 1:
        return stored[0][expert].float()
    words, scale = (t[expert] for t in stored)
    shifts = torch.arange(8, device="cuda", dtype=torch.int32) * 4
    values = ((words[..., None] >> shifts) & 15).flatten(-2).half() - 7
    return (values * scale.repeat_interleave(GROUP, -1)).float()


def _apart(got: Any, want: Any) -> float:
    return float((got.float() - want).abs().max() / want.abs().max())


def main() -> None:
    """Build in parallel, then time."""
    run(parser("benchmarks.gpu.language.experts").parse_args(), jobs(), build, measure)


if __name__ == "__main__":
    main()
