"""What the generated sources of CUTLASS and TensorRT say; neither runs without a GPU."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import tvm_ffi

from opinfo.byoc.backend.backend import Code
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from .nvidia_cases import CASES, module
from .nvidia_library import STUB
from .test_nvidia import HOMES


def sources(name: str) -> str:
    """The generated source of all cases, which are taken whole."""
    home = import_module(f"opinfo.byoc.backends.nvidia.{HOMES[name]}")
    seen: list[str] = []

    def convert(regions: Any) -> Code:
        seen.append(home.source(regions)[0])
        return Code("", tuple(r.symbol for r in regions))

    backend = replace(find(name), available=lambda: None, convert=convert)
    done = dispatch(prepare(module(CASES[name])), [backend])
    taken = Counter(" ".join(o.rpartition(".")[2] for o in t.ops) for t in done.taken)
    assert taken == Counter(c.ops for c in CASES[name].values())
    return seen[0]


def test_operands_of_cutlass_are_typed_and_aligned() -> None:
    ops = Counter(re.findall(r"using Op = (.*);", sources("cutlass")))
    half, rows = "cutlass::half_t", "RowMajor, RowMajor"
    assert ops[f"Halves<{half}, RowMajor, ColumnMajor, 8, 8, epilogue::Relu, 8>"] == 1
    assert ops[f"Halves<{half}, {rows}, 8, 8, epilogue::Relu, 8>"] == 2
    assert ops[f"Halves<{half}, {rows}, 8, 8, epilogue::Silu, 8>"] == 1
    assert ops[f"Floats<float, {rows}, 1, 1, epilogue::Gelu, 1>"] == 1
    assert ops[f"Halves<cutlass::bfloat16_t, {rows}, 8, 8, epilogue::Sigmoid, 8>"] == 1


def test_an_alignment_is_that_of_the_rows_in_memory() -> None:
    read = import_module("opinfo.byoc.backends.nvidia.products.cutlass")._read
    assert [read("float16", n) for n in (64, 36, 10)] == [8, 4, 2]
    assert [read("float32", n) for n in (64, 7)] == [1, 1]


def test_layers_of_tensorrt_have_the_attributes_and_compile(tmp_path: Path) -> None:
    text = sources("tensorrt")
    lines = Counter(re.sub(r"n\.(constant|input)\([^()]*\)", r"\1", line)
                    for line in re.findall(r"ITensor\* v\d = (.*);", text))  # fmt: skip
    kind = "DataType::kFLOAT"
    convolutions = [re.sub(r", \d+, DataType", ", DataType", line) for line in lines]
    for wanted in (
        f"n.convolution(input, {kind}, {{{{2, 1}}, {{1, 2}}, {{2, 1}}, {{2, 1}}}}, 1)",
        f"n.convolution(input, {kind}, {{{{1, 1}}, {{1, 1}}, {{0, 0}}, {{0, 0}}}}, 2)",
        f"n.convolution(input, {kind}, {{{{1, 1}}, {{1, 1}}, {{0, 1}}, {{2, 1}}}}, 1)",
        "n.convolution(input, DataType::kHALF, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1)",
        "n.pooling(input, PoolingType::kMAX, {{3, 2}, {2, 2}, {1, 0}, {1, 0}}, false, false)",
        "n.pooling(input, PoolingType::kAVERAGE, {{3, 3}, {2, 2}, {1, 1}, {1, 1}}, false, true)",
        "n.softmax(input, 1)",
        "n.activation(ActivationType::kCLIP, v1, 0.0f, 6.0f)",
        "n.activation(ActivationType::kLEAKY_RELU, v0, 0.1f, 0.0f)",
        "n.elementwise(ElementWiseOperation::kSUB, constant, v0)",
        "n.elementwise(ElementWiseOperation::kSUM, input, v1)",
    ):
        assert wanted in convolutions, convolutions
    file = tmp_path / "regions.cc"
    file.write_text(text, encoding="utf-8")
    folders = [f"-I{p}" for p in (STUB, *tvm_ffi.libinfo.include_paths())]
    subprocess.run(["g++", "-std=c++17", "-fsyntax-only", *folders, str(file)], check=True)
