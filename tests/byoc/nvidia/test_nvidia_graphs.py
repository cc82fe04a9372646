"""CUDA graphs: what TVM captures, and the memory that captured kernels use."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.tvm_schedules import GRAPHS, compiled
from opinfo.byoc.prepare.fuse import fuse
from opinfo.byoc.prepare.prepare import prepare

from ...layout import nets
from .nvidia_library import stub_library

TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90", "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152, "thread_warp_size": 32})  # fmt: skip
#: Returns whether three rooms are one: of a stream, of a graph of that stream, of another graph.
ROOMS = """
extern "C" int rooms() {
  using namespace opinfo_nvidia;
  cudaStream_t stream = nullptr;
  void* eager = workspace(0, stream, 64);
  stub::captured = 7;
  void* first = workspace(0, stream, 64);
  void* again = workspace(0, stream, 32);
  stub::captured = 8;
  void* second = workspace(0, stream, 64);
  stub::captured = 0;
  if (stub::mode != cudaStreamCaptureModeGlobal) return 1;
  if (eager == first || eager == second || first == second) return 2;
  return first == again && eager == workspace(0, stream, 64) ? 0 : 3;
}
"""


def test_a_graph_has_a_workspace_of_its_own() -> None:
    library = stub_library(library_headers(None) + ROOMS)
    assert ctypes.CDLL(str(library)).rooms() == 0


def _chain(emit: Any, _: Any, x: Any) -> Any:
    weight = relax.const(np.ones((8, 8), "float32"))
    for _ in range(3):
        x = emit(relax.op.nn.softmax(emit(relax.op.matmul(x, weight))))
    return x


@pytest.mark.parametrize("wanted", [None, False])
def test_what_is_static_is_captured_unless_a_context_says_no(wanted: bool | None) -> None:
    config = {} if wanted is None else {GRAPHS: wanted}
    with tvm.transform.PassContext(config=config):
        program = compiled(prepare(nets.net(_chain, (4, 8))), TARGET, fuse)
    captured = "cuda_graph.run_or_capture" in program.as_text()
    assert captured == (wanted is None)


@pytest.mark.parametrize("bounded", [("n", "m"), ("n",), ()])
def test_each_shape_within_bounds_has_a_graph(bounded: tuple[str, ...]) -> None:
    n, m = (tvm.tirx.Var(name, "int64") for name in ("n", "m"))
    mod = nets.net(_chain, (n, m, 8))
    bounds = {name: 64 for name in bounded}
    if bounds:
        mod["main"] = mod["main"].with_attr("tir_var_upper_bound", bounds)
    program = compiled(prepare(mod), TARGET, fuse)
    assert ("cuda_graph.run_or_capture" in program.as_text()) == (len(bounded) == 2)


def test_reshapes_are_views() -> None:
    def build(emit: Any, _: Any, x: Any) -> Any:
        weight = relax.const(np.ones((8, 8), "float32"))
        rows = emit(relax.op.reshape(emit(relax.op.nn.softmax(x)), (8, 8)))
        return emit(relax.op.matmul(rows, weight))

    program = compiled(prepare(nets.net(build, (2, 4, 8))), TARGET, fuse)
    text = program.as_text()
    assert "vm.builtin.reshape" in text
    assert not any("reshape" in f and "vm.builtin" not in f
                   for f in text.split() if f.startswith(("reshape", '"reshape')))  # fmt: skip
