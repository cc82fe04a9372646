"""Build one module one way: python -m benchmarks.gpu.language.builds DIR CASE WAY [SIZES]"""

from __future__ import annotations

import json
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from .llama import Sizes, module

#: Number of tokens and length of the cache of each step.
STEPS = {"prefill128": (128, 0), "prefill1024": (1024, 0), "decode": (1, 1023)}
FORMATS = ("q4f16_1", "float16")
#: ``library``: cuBLASLt for all products with halves, for comparison.
WAYS = ("opinfo", "tvm", "library")
BACKENDS = ("cudnn", "cublaslt", "tvm")
LIMITS = {"arch": "sm_90", "max_num_threads": 1024, "max_threads_per_block": 1024,
          "thread_warp_size": 32, "max_shared_memory_per_block": 49152}  # fmt: skip


def case(name: str, sizes: Sizes) -> tuple[Any, list[Any]]:
    """The module of ``FORMAT-STEP``, and its weights."""
    form, _, step = name.partition("-")
    return module(sizes, form == "q4f16_1", *STEPS[step])


def target() -> Any:
    """The GPU of this machine, or one like it."""
    import tvm

    device = tvm.cuda(0)
    return (tvm.target.Target.from_device(device) if device.exist
            else tvm.target.Target({"kind": "cuda", **LIMITS}))  # fmt: skip


def by_tvm(mod: Any, at: Any) -> Any:
    """The executable of TVM's operators and dlight's default rules, in the order of MLC-LLM.

    Its passes that fuse by names are replaced by opinfo's, which make the same fusions.
    """
    import tvm
    from tvm import relax
    from tvm.relax.backend.cuda import pipeline
    from tvm.s_tir import dlight as dl

    from opinfo import transform

    lower = [
        tvm.transform.module_pass(transposed_products, opt_level=0), relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(), relax.transform.FoldConstant(),
        relax.transform.FuseOps(), relax.transform.FuseTIR(), transform.FuseDequantize(),
        relax.transform.DeadCodeElimination(),
    ]  # fmt: skip
    rules = (dl.gpu.Matmul(), dl.gpu.GEMV(), dl.gpu.Reduction(), dl.gpu.GeneralReduction(),
             dl.gpu.Fallback())  # fmt: skip
    finish = [*pipeline.dataflow_lower_passes(at), *pipeline.finalize_passes(at)]
    config = {"relax.backend.use_cuda_graph": True}
    with at, tvm.transform.PassContext(config=config):
        mod = tvm.transform.Sequential(lower)(mod)
        mod = _scheduled(mod, rules)
        return tvm.compile(mod, target=at, relax_pipeline=tvm.transform.Sequential(finish))


def _scheduled(mod: Any, rules: Any) -> Any:
    """The module scheduled by the first rule for each PrimFunc that applies and does not raise."""
    import tvm
    from tvm.s_tir import dlight as dl

    out = mod.clone()
    for gvar, func in mod.functions_items():
        for rule in rules if isinstance(func, tvm.tirx.PrimFunc) else ():
            try:
                new = dl.ApplyDefaultSchedule(rule)(tvm.IRModule({"main": func}))["main"]
            except Exception:
                continue
            if new.attrs.get("tirx.is_scheduled", False):
                out.update_func(gvar, new)
                break
    return out


def transposed_products(mod: Any, _: Any = None) -> Any:
    """The module with products of transposed matrices as one PrimFunc each, as MLC-LLM has them."""
    from tvm import relax, te

    def product(x: Any, w: Any) -> Any:
        *outer, depth = x.shape
        k = te.reduce_axis((0, depth), "k")

        def element(*index: Any) -> Any:
            return te.sum(x[(*index[:-1], k)] * w[index[-1], k], k)

        return te.compute((*outer, w.shape[0]), element, name="NT_matmul")

    @relax.expr_functor.mutator
    class Mutator(relax.PyExprMutator):
        def visit_call_(self, call: Any) -> Any:
            call = super().visit_call_(call)
            if getattr(call.op, "name", "") != "relax.matmul" or call.args[1].ty.ndim != 2:
                return call
            bound = self.lookup_binding(call.args[1])
            if getattr(getattr(bound, "op", None), "name", "") != "relax.permute_dims":
                return call
            return self.builder_.call_te(product, call.args[0], bound.args[0],
                                         primfunc_name_hint="NT_matmul")  # fmt: skip

    writer = Mutator(mod)
    for gvar, func in mod.functions_items():
        if isinstance(func, relax.Function):
            writer.builder_.update_func(gvar, writer.visit_expr(func))
    return relax.transform.DeadCodeElimination()(writer.builder_.get())


def build(name: str, way: str, path: Path, sizes: Sizes) -> dict[str, Any]:
    """Write a library, and return the row about it."""
    begun = time.perf_counter()
    mod, _ = case(name, sizes)
    row: dict[str, Any] = {"name": name, "way": way}
    if way == "tvm":
        by_tvm(mod, target()).export_library(str(path))
    else:
        import opinfo

        if way == "library":
            from opinfo.byoc.backends.nvidia.grouped_weights import unpacked

            unpacked._single_row = lambda node: None

        compiled = opinfo.compile(mod, list(BACKENDS), target="cuda")
        compiled.export(str(path))
        assert compiled.dispatched is not None
        row["summary"] = compiled.dispatched.summary()
    return row | {"build_s": time.perf_counter() - begun}


def main() -> None:
    """Write DIR/CASE-WAY.so and the row .build.json."""
    folder, name, way = Path(sys.argv[1]), *sys.argv[2:4]
    sizes = replace(Sizes(), **json.loads(sys.argv[4])) if len(sys.argv) > 4 else Sizes()
    stem = folder / f"{name}-{way}"
    try:
        row = build(name, way, Path(f"{stem}.so"), sizes)
    except Exception as error:
        row = {"name": name, "way": way,
               "error": f"{type(error).__name__}: {str(error).strip()[-400:]}"}  # fmt: skip
        Path(f"{stem}.err").write_text(traceback.format_exc())
    Path(f"{stem}.build.json").write_text(json.dumps(row, indent=1))
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
