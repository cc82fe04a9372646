"""Functions whose kernels are C++ over the stub of CUDA's runtime, called by TVM's machine."""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from opinfo.byoc.backends.nvidia.graphs.graph_code import graph_code
from opinfo.byoc.backends.nvidia.graphs.whole_calls import CACHED, with_whole_calls
from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.codegen.compilers.toolchain import object_file
from opinfo.byoc.codegen.export import export_library

from .nvidia_library import OPTIONS, stub_options

#: `t_double(x, y)`: y = 2 x. `t_count(x, y)`: y = x + a counter that a library clears before its
#: kernel, which counts. `t_late(x, y)`: y = x + memory that is cleared after it was used.
#: `t_append(x, y)`: y += x. `t_stats(k)`: what the stub counts.
KERNELS = """
namespace {
using namespace opinfo_nvidia;

template <typename Work>
int elementwise(const TVMFFIAny* args, TVMFFIAny* result, Work work) {
  *result = TVMFFIAny{};
  const DLTensor *x = opinfo::tensor(args[0]), *y = opinfo::tensor(args[1]);
  int64_t n = 1;
  for (int k = 0; k < x->ndim; ++k) n *= x->shape[k];
  const float* from = reinterpret_cast<float*>(opinfo::data(x));
  float* to = reinterpret_cast<float*>(opinfo::data(y));
  stub::submit(stream_of(0), [=] { for (int64_t k = 0; k < n; ++k) work(from[k], to[k]); });
  return 0;
}
}  // namespace

OPINFO_FUNCTION(t_double) {
  return elementwise(args, result, [](float x, float& y) { y = 2 * x; });
}
OPINFO_FUNCTION(t_append) {
  return elementwise(args, result, [](float x, float& y) { y += x; });
}
OPINFO_FUNCTION(t_count) {
  float* counter = static_cast<float*>(workspace(0, stream_of(0), 64, true));
  cudaMemsetAsync(counter, 0, 4, stream_of(0));
  cudaMemsetAsync(counter + 8, 0, 32, stream_of(0));
  stub::submit(stream_of(0), [=] { *counter += 1 + counter[8], counter[8] = 7; });
  return elementwise(args, result, [=](float x, float& y) { y = x + *counter - 1; });
}
OPINFO_FUNCTION(t_late) {
  float* counter = static_cast<float*>(workspace(0, stream_of(0), 64, true));
  stub::submit(stream_of(0), [=] { *counter = 5; });
  cudaMemsetAsync(counter, 0, 64, stream_of(0));
  return elementwise(args, result, [=](float x, float& y) { y = x + *counter; });
}
OPINFO_FUNCTION(t_fail) { return opinfo::fail("ValueError", "a kernel of the test"); }
OPINFO_FUNCTION(t_stats) {
  const int all[] = {stub::launches, stub::instances, stub::live, stub::waits, stub::synchronised,
                     stub::clears, stub::copies};
  *result = opinfo::integer(all[args[0].v_int64]);
  return 0;
}
"""
SYMBOLS = ("t_double", "t_append", "t_count", "t_late", "t_fail", "t_stats")
STATS = ("launches", "instances", "live", "waits", "synchronised", "clears", "copies")
LOWER = (relax.transform.ToNonDataflow, relax.transform.RemovePurityChecking,
         relax.transform.CallTIRRewrite, relax.transform.StaticPlanBlockMemory)  # fmt: skip
FINALIZE = (relax.transform.LowerAllocTensor, relax.transform.KillAfterLastUse,
            relax.transform.LowerRuntimeBuiltin, relax.transform.ComputePrimValue,
            relax.transform.VMShapeLower, relax.transform.AttachGlobalSymbol)  # fmt: skip
Build = Callable[..., Any]
#: What `_register` keeps, by the address of a machine.
KEPT: dict[int, Any] = {}


def module(build: Build, shapes: Sequence[Sequence[Any]], **bounds: int) -> Any:
    """``main`` over float32 tensors; ``build(emit, *inputs)`` returns the result."""
    xs = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", xs):
        with builder.dataflow():
            out = builder.emit_output(build(builder.emit, *xs))
        builder.emit_func_output(out)
    mod = builder.get()
    if bounds:
        by_shape = {"tir_var_upper_bound": bounds,
                    "relax.rewrite_cuda_graph.capture_symbolic_vars": list(bounds)}  # fmt: skip
        mod["main"] = mod["main"].with_attrs(by_shape)
    return mod


def kernel(emit: Build, name: str, x: Any) -> Any:
    return emit(relax.op.call_dps_packed(name, relax.Tuple([x]), out_ty=x.ty))


def planned(mod: Any) -> Any:
    return tvm.transform.Sequential([p() for p in LOWER])(mod)


def built(mod: Any, folder: Path) -> Any:
    """The library of a planned module."""
    passes = tvm.transform.Sequential([p() for p in FINALIZE])
    mod = with_whole_calls(mod, SYMBOLS)
    program = tvm.compile(mod, target="llvm", relax_pipeline=passes)
    export_library(program, folder / "library.so", (*_objects(), *stub_options()))
    return tvm.runtime.load_module(str(folder / "library.so"))


@functools.cache
def _objects() -> tuple[str, ...]:
    """The kernels and what launches graphs, compiled once."""
    folder = Path(tempfile.mkdtemp(prefix="whole-calls-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runtime = library_headers(None)
    folders = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    for name, text in (("kernels", runtime + KERNELS), ("graphs", graph_code().source)):
        source = folder / f"{name}.cc"
        source.write_text(text)
        object_file(str(folder / f"{name}.o"), str(source), (*OPTIONS, *folders))
    return str(folder / "kernels.o"), str(folder / "graphs.o")


class Machine:
    """A virtual machine of a library, and what the stub counted since the last look.

    One is alive at a time.
    """

    def __init__(self, library: Any) -> None:
        _register()
        KEPT.clear()
        self._machine = relax.VirtualMachine(library, tvm.cpu())
        self._stats = library.get_function("t_stats", query_imports=True)
        self._last = self._now()

    def __call__(self, *inputs: Any) -> Any:
        return self._machine["main"](*inputs)

    def counted(self) -> dict[str, int]:
        before, self._last = self._last, self._now()
        return {name: self._last[name] - before[name] for name in STATS}

    def end(self) -> None:
        """Drop the machine; the counts remain."""
        del self._machine
        KEPT.clear()
        gc.collect()

    def _now(self) -> dict[str, int]:
        return {name: int(self._stats(k)) for k, name in enumerate(STATS)}


@functools.cache
def _register() -> None:
    """What TVM's runtime has of CUDA graphs is in a library that needs CUDA's driver."""
    if tvm.get_global_func(CACHED, allow_missing=True) is not None:
        return
    call = tvm.get_global_func("vm.builtin.invoke_closure")

    def cached(machine: Any, function: Any, _: int) -> Any:
        address = ctypes.cast(machine, ctypes.c_void_p).value
        assert address is not None
        if address not in KEPT:
            KEPT[address] = call(machine, function)
        return KEPT[address]

    tvm_ffi.register_global_func(CACHED, cached)
