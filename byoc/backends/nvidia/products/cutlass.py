"""NVIDIA CUTLASS: products of matrices from templates that come with TVM, compiled by nvcc.

Operators after the product form its epilogue: a bias or a residual, and an activation. A kernel is
compiled for the operands' dtypes and alignment, so row lengths must be static; the numbers of rows
and the batch need not be.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import tvm
import tvm_ffi

from .....analysis.support.files.atomic_replace import replacing
from .....analysis.support.files.user_cache import user_cache
from ....backend.backend import Backend, Code
from ....backend.region import Region
from ....codegen.loading.cuda_device import cuda_device
from ....patterns.pattern import Node
from ....process import trust
from ...common.region_source import Constants, number
from ..libraries.dtypes import DLPACK
from ..libraries.estimated_cost import conversion, cost
from ..libraries.locate import CUDART, available, options
from ..libraries.source import GpuFunction, joined_source, library_headers
from .gemm import PRODUCTS, gemm
from .product_patterns import patterns

EPILOGUES = {None: "Identity", "relax.nn.relu": "Relu", "relax.nn.gelu": "Gelu",
             "relax.nn.silu": "Silu", "relax.sigmoid": "Sigmoid"}  # fmt: skip
TYPES = {"float32": "float", "float16": "cutlass::half_t", "bfloat16": "cutlass::bfloat16_t"}
#: The most bytes that tensor cores read at once.
MOST = 16
NO_NVCC = "nvcc is not on PATH (install NVIDIA's CUDA toolkit, 13 for TVM's package)"


def extents(node: Node) -> str | None:
    """Rows in memory of a, b and d have whole reads of tensor cores; all have one dtype."""
    first, second = node.operand(0), node.operand(1)
    assert first is not None and second is not None
    if first.dtype != node.result.dtype:
        return f"the result is {node.result.dtype}, expected {first.dtype} as in the operands"
    rows = [first.shape[-2 if node.chain is first else -1], second.shape[-1], second.shape[-2]]
    if not all(isinstance(e, int) for e in rows):
        return "the extent of a row in memory is symbolic, expected a static extent"
    odd = [e for e in rows if e % 2]
    if odd and first.dtype != "float32":
        return f"a row has {odd[0]} elements of {first.dtype}, expected an even number"
    return None


def source(regions: Sequence[Region]) -> tuple[str, Constants]:
    """The CUDA C++ of all regions, and its constants."""
    return joined_source(library_headers(__package__, "cutlass.cuh"), regions, _body)


def convert(regions: Sequence[Region]) -> Code:
    """The object file of all regions, and a C++ file to link it with."""
    text, constants = source(regions)
    symbols = tuple(r.symbol for r in regions)
    rounds = tuple((r.symbol, how) for r in regions for how in gemm(r).rounds)
    object_file = compiled(text)
    return Code(f"// compiled by nvcc: {object_file.name}\n", symbols, constants.named(symbols[0]),
                (str(object_file), *options(CUDART)), rounds)  # fmt: skip


def _body(frame: GpuFunction) -> list[str]:
    product = gemm(frame.region)
    dtype = product.a.dtype
    added = product.bias if product.bias is not None else product.residual
    layouts = ["ColumnMajor" if t else "RowMajor" for t in product.turned]
    tiles = "Floats" if dtype == "float32" else "Halves"
    reads = [_read(dtype, t.shape[-1]) for t in (product.a, product.b, frame.region.result)]
    aligned = max(reads) * DLPACK[dtype][1] // 8
    body = ["Gemm g;", f"g.a = {frame.view(product.a)};", f"g.b = {frame.view(product.b)};",
            f"g.d = {frame.view(frame.region.result)};"]  # fmt: skip
    body += ["g.merge = true;"] * product.merge
    if product.alpha != 1.0:
        body.append(f"g.alpha = {number(product.alpha)};")
    if added is not None:
        body.append(f"g.added = {frame.view(added)};")
    op = (f"{tiles}<{TYPES[dtype]}, {', '.join(layouts)}, {reads[0]}, {reads[1]}, "
          f"epilogue::{EPILOGUES[product.activation]}, {reads[2]}>")  # fmt: skip
    return [*body, f"using Op = {op};", f"return product<Op>(c, g, {aligned});"]


def _read(dtype: str, extent: object) -> int:
    """The number of elements of a row that are read at once: a divisor of its extent."""
    if dtype == "float32":
        return 1
    assert isinstance(extent, int)
    size = DLPACK[dtype][1] // 8
    return next(n for n in (MOST // size, 4, 2) if extent % n == 0)


def compiled(text: str) -> Path:
    """The object file of a source, from the cache or compiled now.

    Raises `Untrusted` if other users could have written it.
    """
    command = [_nvcc(), "-c", "-O3", "-std=c++17", "-Xcompiler", "-fPIC,-O1",
               "--expt-relaxed-constexpr", *_architecture(), *_includes()]  # fmt: skip
    key = hashlib.sha256("\0".join([text, *command]).encode()).hexdigest()[:32]
    folder = user_cache("cutlass")
    object_file, source_file = folder / f"{key}.o", folder / f"{key}.cu"
    with trust.folder(folder, create=True) as within, contextlib.suppress(FileNotFoundError):
        trust.read(object_file.name, within)
        return object_file
    source_file.write_text(text, encoding="utf-8")
    with replacing(object_file) as part:
        completed = subprocess.run(
            [*command, str(source_file), "-o", str(part)], capture_output=True, text=True
        )
        if completed.returncode != 0:
            lines = [line for line in completed.stderr.splitlines() if "error" in line]
            raise RuntimeError(
                f"nvcc: {(lines or completed.stderr.splitlines() or ['it failed'])[0]}"
            )
    return object_file


def _architecture() -> list[str]:
    """Options for this machine's GPU; without one, for Ampere, with PTX for later GPUs."""
    device = cuda_device()
    if not device.exist:
        return ["-gencode", "arch=compute_80,code=[sm_80,compute_80]"]
    return [f"-arch=sm_{device.compute_version.replace('.', '')}"]


def _includes() -> list[str]:
    return [f"-I{headers()}", *(f"-I{p}" for p in tvm_ffi.libinfo.include_paths())]


def headers() -> Path:
    """The folder of the CUTLASS headers in TVM's package."""
    return Path(str(tvm.__file__)).parent / "3rdparty" / "cutlass" / "include"


def _nvcc() -> str:
    path = shutil.which("nvcc")
    if path is None:
        raise RuntimeError(NO_NVCC)
    return path


def why_not() -> str | None:
    """Why CUTLASS cannot be used; None if it can."""
    if shutil.which("nvcc") is None:
        return NO_NVCC
    if not (headers() / "cutlass" / "version.h").exists():
        return "CUTLASS does not come with this package of TVM"
    return available(CUDART)


def version() -> str:
    """The version of the headers; empty if they are missing."""
    try:
        text = (headers() / "cutlass" / "version.h").read_text(encoding="utf-8")
    except OSError:
        return ""
    return ".".join(re.findall(r"^#define CUTLASS_(?:MAJOR|MINOR|PATCH) (\d+)", text, re.M))


BACKEND = Backend(
    "cutlass", patterns([a for a in EPILOGUES if a], extents, both=False), convert, why_not,
    dict.fromkeys(PRODUCTS, ()), cost, version, conversion=conversion,
)  # fmt: skip
