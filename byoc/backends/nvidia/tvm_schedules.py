"""Schedules for operators that stay with TVM on a GPU.

They need loops in the order of a block's axes, so loops that were reordered for a CPU are restored.

Before: for i, j, r0, r1, c in T.grid(…): with T.sblock(…): v_i, … = T.axis.remap("SSRRS", …)
After:  blockIdx.x, threadIdx.x over i, j, c; for r0, r1 in T.grid(…)
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import tvm
from tvm import relax, s_tir, tirx
from tvm.relax.backend.cuda import pipeline
from tvm.s_tir import dlight as dl
from tvm.s_tir.dlight.analysis.common_analysis import get_sblockrealize

from ....analysis import op_info
from ....analysis.blocks.block_terms import Opaque
from ....analysis.blocks.blocks import stages
from ....analysis.support.pass_options import with_options
from ....analysis.support.progress import stage
from ....analysis.support.wording import last_line
from ...codegen.loading.cuda_device import cuda_device
from ...codegen.memory_plan import UPPER, planning, unbounded
from ...codegen.partition import attached
from ...matching.named_sizes import with_named_sizes
from ...prepare.raising.raise_ops import raise_ops
from .experts.expert_kernel import expert_scheduled
from .experts.fuse_experts import fuse_experts
from .graphs.graph_code import graph_code
from .graphs.whole_call import BY_SHAPE
from .graphs.whole_calls import with_whole_calls
from .grouped_weights.gemv_kernel import packed_scheduled
from .grouped_weights.packed_products import fuse_packed, turn_products
from .libraries.locate import CUDART, options
from .nvrtc.exact_math import exact_math
from .nvrtc.kernel_headers import kernel_headers
from .passes.casts_by_reader import casts_by_reader
from .passes.fast_functions import with_fast_functions
from .passes.fuse_rows import fuse_rows
from .passes.fuse_totals import fuse_totals
from .passes.loops_by_result import loops_by_result
from .passes.split_reductions import split_reductions
from .passes.transposed_constants import with_constant_layouts
from .passes.valid_names import with_valid_names
from .schedules.gpu_schedule import DONE, directly_scheduled, gpu_scheduled
from .tensor_intrinsics import import_tensor_intrinsics

LOG = logging.getLogger("opinfo.byoc")
#: Operators that `relax.backend.DispatchSortScan` lowers for a target.
SCANS = ("relax.cumsum", "relax.cumprod", "relax.sort", "relax.argsort", "relax.topk")
#: With this attribute, TVM's rule for products does not use tensor cores.
WITHOUT_TENSORS = "dlight.do_not_tensorize"
#: TVM's switch for CUDA graphs.
GRAPHS = "relax.backend.use_cuda_graph"


def gpu(target: Any) -> Any:
    """Return the target; a bare ``cuda`` gets the properties of the GPU of this machine."""
    device = cuda_device()
    if target == "cuda" and device.exist:
        return tvm.target.Target.from_device(device)
    return tvm.target.Target(target)


def compiled(
    mod: Any, target: Any, fuse: Callable[[Any], Any], whole_calls: bool = False
) -> Any:  # fmt: skip
    """An executable of a dispatched module.

    It does not use TVM's default pipeline, which would fuse scheduled PrimFuncs. What has static
    shapes is launched as CUDA graphs, unless the current `tvm.transform.PassContext` sets
    ``relax.backend.use_cuda_graph`` to False.

    Args:
        mod: The module, with the code of its regions.
        target: The target of TVM.
        fuse: Fuses operators.
        whole_calls: Functions are one graph, if they can be. This adds C++, which is compiled with
            `graph_options` when the executable is exported.
    """
    target = gpu(target)
    stage("scheduling")
    mod = with_scans(mod)
    with target:
        first = [*pipeline.library_dispatch_passes(target), relax.transform.LegalizeOps()]
        mod = tvm.transform.Sequential(first)(mod)
    # Scheduled reshapes are kernels to TVM, and not views.
    views = relax.transform.RewriteDataflowReshape()
    mod = casts_by_reader(turn_products(loops_by_result(mod)))
    fused = fuse_totals(fuse_rows(fuse_experts(fuse_packed(fuse(mod)))))
    fused = split_reductions(with_constant_layouts(fused))
    lowered = scheduled(views(fused), target)
    lowered = captured_by_shape(unbounded(lowered))
    stage("compiling kernels")
    with planning(lowered), graphs(), exact_math(), kernel_headers(), target:
        if whole_calls and tvm.transform.PassContext.current().config[GRAPHS]:
            lowered = attached(lowered, [graph_code()])
            finalize = with_graphs(lowered, pipeline.finalize_passes(target))
        else:
            finalize = pipeline.finalize_passes(target)
        passes = [*pipeline.dataflow_lower_passes(target), *finalize]
        relax_pipeline = tvm.transform.Sequential(passes)
        return tvm.compile(lowered, target, relax_pipeline=relax_pipeline)


@functools.cache
def graph_options() -> tuple[str, ...]:
    """The options of the C++ that launches graphs; none if CUDA's headers are not installed."""
    return () if CUDART.missing() else options(CUDART)


def with_graphs(mod: Any, passes: Sequence[Any]) -> list[Any]:
    """TVM's passes, with whole calls as graphs where they capture parts of calls."""
    codes = (mod.attrs or {}).get("external_mods", ())
    kernels = [str(name) for code in codes for name in code["get_func_names"]()]
    whole = tvm.transform.module_pass(lambda m, _: with_whole_calls(m, kernels), opt_level=0)
    captured = [p.info.name == "RewriteCUDAGraph" for p in passes]
    if sum(captured) != 1:
        raise RuntimeError(f"TVM captures graphs in {sum(captured)} passes, expected 1")
    return [whole if c else p for c, p in zip(captured, passes, strict=True)]


def captured_by_shape(mod: Any) -> Any:
    """The module, with CUDA graphs for each shape of functions whose dimensions are all bounded.

    TVM plans their memory for the largest sizes, so a graph keeps its addresses.
    """
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if not isinstance(func, relax.Function):
            continue
        bounds: Mapping[str, Any] = (func.attrs or {}).get(UPPER) or {}
        names = sorted(str(v.name) for v in relax.analysis.defined_symbolic_vars(func))
        if names and all(name in bounds for name in names):
            out.update_func(gvar, func.with_attr(BY_SHAPE, names))
    return out


def with_scans(mod: Any) -> Any:
    """The module with scans and sorts that were lowered for a CPU as operators again.

    TVM has lowerings of these for a GPU.
    """
    others = [f for _, f in mod.functions_items() if _waits(f) and not _is_standard(f)]
    if not any(getattr(op_info(f), "name", "") in SCANS for f in others):
        return mod  # raising reads all PrimFuncs
    return raise_ops(mod, certificate="extern", ops=SCANS).module


def _is_standard(func: Any) -> bool:
    try:
        return bool(stages(func))
    except Opaque:
        return False


def graphs() -> Any:
    """A context in which TVM captures CUDA graphs, if nothing else is said."""
    if GRAPHS in tvm.transform.PassContext.current().config:
        return nullcontext()
    return with_options({GRAPHS: True})


def scheduled(mod: Any, target: Any) -> Any:
    """The module with every PrimFunc bound to threads; ``mod`` is not changed.

    Raises ``RuntimeError`` for PrimFuncs that no schedule of TVM fits: they would run on the host,
    on memory of the GPU.
    """
    _refuse([g for g, f in mod.functions_items() if _waits(f) and not _in_blocks(f)])
    out = mod.clone()
    for gvar, func in mod.functions_items():
        if _waits(func):
            out.update_func(gvar, _scheduled(func, target))
    _refuse([g for g, f in out.functions_items() if _waits(f)])
    return out


def _scheduled(func: Any, target: Any) -> Any:
    """The PrimFunc bound to threads by the first rule that fits, else unchanged.

    TVM's rules for products go before a product by single threads, its other rules after it.
    """
    func = with_valid_names(func)
    scheduled = expert_scheduled(func) or packed_scheduled(func) or gpu_scheduled(func)
    if scheduled:
        return with_fast_functions(scheduled)
    import_tensor_intrinsics()
    ordered = in_order(func)
    for form in (ordered, ordered.with_attr(WITHOUT_TENSORS, True)):
        out = _by_tvm(form, dl.gpu.Matmul(), target)
        if out is not None and _lowers(out, target):
            return out
    if (out := _by_tvm(ordered, dl.gpu.GEMV(), target)) is not None:
        return out
    scheduled = directly_scheduled(func)
    if scheduled:
        return scheduled
    for form in (ordered, *_over_sizes(func)):
        for rule in (dl.gpu.Reduction(), dl.gpu.GeneralReduction(), dl.gpu.Fallback()):
            if (out := _by_tvm(form, rule, target)) is not None:
                return out
    return func


def _over_sizes(func: Any) -> Iterator[Any]:
    """The PrimFunc over variables for sizes that are computed, which TVM's rules do not invert.

    Its buffers bind these variables, as ``n`` is bound by a buffer of ``(n,)``.
    """
    named = with_named_sizes(func)
    if named is not None:
        yield in_order(named[0])


def _by_tvm(func: Any, rule: Any, target: Any) -> Any | None:
    """The PrimFunc scheduled by a rule of TVM; None if it does not apply, or raises."""
    try:
        with target:
            mod = dl.ApplyDefaultSchedule(rule)(tvm.IRModule({"main": func}))
    except Exception:  # an assertion of the rule about the PrimFunc
        return None
    return mod["main"] if mod["main"].attrs.get(DONE, False) else None


def _lowers(func: Any, target: Any) -> bool:
    """Whether TVM lowers a scheduled PrimFunc; its pipelines of tensor cores may raise."""
    named = func if "global_symbol" in func.attrs else func.with_attr("global_symbol", "main")
    mod = tirx.transform.BindTarget(target.with_host("llvm"))(tvm.IRModule({"main": named}))
    try:
        with target:
            tirx.get_default_tir_pipeline(target)[0](mod)
    except Exception as error:  # what it raises would end the build of the model
        LOG.info("TVM does not lower its schedule of %s, another is tried: %s",
                 named.attrs["global_symbol"], last_line(error))  # fmt: skip
        return False
    return True


def _refuse(gvars: Sequence[Any]) -> None:
    names = sorted(g.name_hint for g in gvars)
    if names:
        raise RuntimeError(f"TVM has no GPU schedule for {', '.join(names)}")


def _in_blocks(func: Any) -> bool:
    return isinstance(func.body, s_tir.SBlockRealize)


def _waits(func: Any) -> bool:
    return (isinstance(func, tirx.PrimFunc) and bool(func.attrs.get("s_tir", False))
            and not func.attrs.get(DONE, False))  # fmt: skip


def in_order(func: Any) -> Any:
    """Each block's loops in the order of its axes, if each axis is bound to one loop."""
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    for block in schedule.get_child_blocks(schedule.get_sblock(func.body.block.name_hint)):
        loops = {schedule.get(x).loop_var: x for x in schedule.get_loops(block)}
        bound = [loops.get(v) for v in get_sblockrealize(schedule, block).iter_values
                 if isinstance(v, tirx.Var)]  # fmt: skip
        order = [x for x in bound if x is not None]
        if len(order) == len(loops) > 1:
            schedule.reorder(*order)
    return schedule.mod["main"].with_attrs(func.attrs)
