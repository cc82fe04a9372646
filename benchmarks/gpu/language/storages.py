"""Time products of few rows with packed weights in many storages.

    python -m benchmarks.gpu.language.storages [--json FILE] [--build]

One line a product: microseconds of a call with opinfo's kernel, the share of the bandwidth of a
copy that it reads its operands at, the error, and microseconds with TVM's rules. Calls go over
copies of the weights that do not fit into the cache, in CUDA graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.common.cuda_target import cuda_target
from benchmarks.gpu.gpu_kernels.kernel_builds import by_tvm, compiled
from benchmarks.gpu.gpu_kernels.kernel_times import timed
from benchmarks.gpu.language.product_runs import parser, run


@dataclass(frozen=True)
class Storage:
    """How weights of (columns, depth) are stored.

    Attributes:
        bits: The bits of a value.
        group: The values that share a scale.
        offset: The zero point of all groups.
        dtype: The dtype of words.
        along: The axis of the sums: 1 for (columns, depth), 0 for (depth, columns).
        zeros: The dtype of zero points, or the axis along which they are packed; None for none.
    """

    bits: int = 4
    group: int = 32
    offset: int = 0
    dtype: str = "uint32"
    along: int = 1
    zeros: str | int | None = None

    @property
    def per_word(self) -> int:
        """The values of a word."""
        return (8 if self.is_byte else 32) // self.bits

    @property
    def is_byte(self) -> bool:
        """Whether a word is a byte."""
        return self.dtype in ("int8", "uint8")

    def shapes(self, columns: int, depth: int) -> list[tuple[int, int]]:
        """The shapes of words, scales and zero points."""
        groups = -(-depth // self.group)
        words = -(-groups * self.group // self.per_word)
        zeros = (columns, groups)
        if isinstance(self.zeros, int):
            over_columns = self.zeros != self.along
            zeros = (
                (-(-columns // self.per_word), groups)
                if over_columns
                else (columns, -(-groups // self.per_word))
            )
        out = [(columns, words), (columns, groups), zeros]
        return out if self.along else [(b, a) for a, b in out]

    def digit(self, words: Any, at: tuple[Any, Any], axis: int) -> Any:
        """The value at an element, of words packed along an axis."""
        from tvm import tirx

        place = list(at)
        place[axis] = at[axis] // self.per_word
        word = words[tuple(place)]
        if self.is_byte and self.bits == 8:
            return word
        amount = tirx.Cast(self.dtype, at[axis] % self.per_word * self.bits)
        return tirx.bitwise_and(word >> amount, tirx.const((1 << self.bits) - 1, self.dtype))


def prim_func(rows: int, columns: int, depth: int, storage: Storage) -> Any:
    """A PrimFunc that dequantises by group and multiplies, as two blocks."""
    from tvm import te, tirx

    kind = "float16"
    zeros_dtype = storage.zeros if isinstance(storage.zeros, str) else storage.dtype
    inputs = [
        te.placeholder(shape, dtype, name=name)
        for shape, dtype, name in zip(storage.shapes(columns, depth),
                                      (storage.dtype, kind, zeros_dtype),
                                      ("words", "scale", "zeros"), strict=True)
    ]  # fmt: skip
    words, scale, zeros = inputs

    def value(i: Any, j: Any) -> Any:
        at = (i, j // storage.group) if storage.along else (i // storage.group, j)
        out = tirx.Cast(kind, storage.digit(words, (i, j), storage.along))
        if storage.offset:
            out = out - tirx.const(storage.offset, kind)
        if isinstance(storage.zeros, str):
            out = out - tirx.Cast(kind, zeros[at])
        elif storage.zeros is not None:
            out = out - tirx.Cast(kind, storage.digit(zeros, at, storage.zeros))
        return out * scale[at]

    w = te.compute((columns, depth) if storage.along else (depth, columns), value, name="w")
    x = te.placeholder((1, rows, depth), kind, name="x")
    k = te.reduce_axis((0, depth), "k")
    y = te.compute((1, rows, columns), lambda b, i, j: te.sum(
        x[b, i, k] * w[(j, k) if storage.along else (k, j)], k), "y")  # fmt: skip
    used = inputs if storage.zeros is not None else inputs[:2]
    return te.create_prim_func([x, *used, y]).with_attr("tirx.noalias", True)


#: Columns and depth: two products of Llama 8B.
SIZES = ((6144, 4096), (4096, 14336))
STORAGES = {
    "q4f16_1": Storage(offset=7),
    "q4f16_0": Storage(offset=7, along=0),
    "q3f16_1": Storage(bits=3, group=40, offset=3),
    "q3f16_0": Storage(bits=3, group=40, offset=3, along=0),
    "gptq": Storage(group=128, along=0, dtype="int32", zeros=1, offset=1),
    "zeros": Storage(group=128, zeros="float16"),
    "bytes-4": Storage(dtype="uint8", offset=8),
    "int8": Storage(bits=8, dtype="int8"),
}
ROWS = (1, 4)
Job = tuple[int, int, int, str, str]


def jobs() -> list[Job]:
    """Each product with opinfo's kernel and with TVM's rules."""
    return [(rows, *size, name, way) for name in STORAGES for size in SIZES for rows in ROWS
            for way in ("opinfo", "tvm")]  # fmt: skip


def build(job: Job, folder: str, arch: str) -> dict[str, Any]:
    """Build a product."""

    from opinfo.byoc.backends.nvidia.grouped_weights.gemv_kernel import packed_scheduled

    target = cuda_target(arch)
    rows, columns, depth, name, way = job
    func = prim_func(rows, columns, depth, STORAGES[name])
    path = str(Path(folder) / ("_".join(map(str, job)) + ".so"))
    schedule = (
        (lambda: [packed_scheduled(func)]) if way == "opinfo" else (lambda: [by_tvm(func, target)])
    )
    return {"job": job, "path": compiled(schedule, target, path)}


def measure(built: dict[str, Any], limit: float) -> dict[str, Any]:
    """Time one build on the device, and compare it with the product in float64."""
    import torch
    import tvm

    rows, columns, depth, name, _ = built["job"]
    row: dict[str, Any] = {"job": built["job"]}
    if not built["path"].endswith(".so"):
        return row | {"note": built["path"]}
    torch.manual_seed(0)
    storage = STORAGES[name]
    sets = [_operands(columns, depth, storage)]
    size = sum(t.numel() * t.element_size() for t in sets[0])
    count = min(24, max(2, -(-160 * 2**20 // size)))
    sets += [[t.clone() for t in sets[0]] for _ in range(count - 1)]
    x = torch.randn(1, rows, depth, device="cuda").half()
    out = torch.empty(1, rows, columns, dtype=torch.float16, device="cuda")
    main = tvm.runtime.load_module(built["path"])["k0"]
    views = [[t.view(torch.uint32) if storage.dtype == "uint32" and t.dtype == torch.int32 else t
              for t in tensors] for tensors in sets]  # fmt: skip
    put = tvm.runtime.from_dlpack
    calls = [partial(main, x, *map(put, tensors), out) for tensors in views]
    calls[0]()
    torch.cuda.synchronize()
    exact = x[0].double() @ _weights(sets[0], depth, storage).T
    row["apart"] = float((out[0].double() - exact).abs().max() / exact.abs().max())
    row["us"] = timed(torch, calls, 7) * 1e6
    row["share"] = (size + x.numel() * 2 + out.numel() * 2) / (row["us"] * 1e-6) / limit
    return row


def _operands(columns: int, depth: int, storage: Storage) -> list[Any]:
    """Random words, scales and zero points; words of 32 bits are signed."""
    import torch

    shapes = storage.shapes(columns, depth)

    def words(shape: tuple[int, int]) -> Any:
        kind = getattr(torch, storage.dtype) if storage.is_byte else torch.int32
        info = torch.iinfo(kind)
        return torch.randint(info.min, info.max, shape, device="cuda", dtype=kind)

    out = [words(shapes[0]), torch.rand(shapes[1], device="cuda").half() / 64]
    if isinstance(storage.zeros, str):
        zeros = torch.randint(0, 15, shapes[2], device="cuda")
        out.append(zeros.to(getattr(torch, storage.zeros)))
    elif storage.zeros is not None:
        out.append(words(shapes[2]))
    return out


def _weights(operands: list[Any], depth: int, storage: Storage) -> Any:
    """The weights of (columns, depth) in float64."""
    import torch

    words, scale, *zeros = operands
    columns = scale.shape[1 - storage.along]

    def values(words: Any, axis: int, size: int) -> Any:
        if storage.is_byte and storage.bits == 8:
            return words.double()
        shifts = torch.arange(storage.per_word, device="cuda", dtype=torch.int32) * storage.bits
        digits = words.movedim(axis, -1).int()[..., None] >> shifts & (1 << storage.bits) - 1
        return digits.flatten(-2)[:, :size].movedim(-1, axis).double()

    def spread(groups: Any) -> Any:
        out = groups.double().repeat_interleave(storage.group, storage.along)
        return out.narrow(storage.along, 0, depth)

    out = values(words, storage.along, depth) - storage.offset
    if isinstance(storage.zeros, str):
        out = out - spread(zeros[0])
    elif storage.zeros is not None:
        size = columns if storage.zeros != storage.along else scale.shape[storage.along]
        out = out - spread(values(zeros[0], storage.zeros, size))
    out = out * spread(scale)
    return out if storage.along else out.T


def main() -> None:
    """Build in parallel, then time."""
    run(parser("benchmarks.gpu.language.storages").parse_args(), jobs(), build, measure)


if __name__ == "__main__":
    main()
