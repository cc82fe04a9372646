"""MLC-LLM's compile pipeline up to its last fusion, phase by phase, for a CUDA target."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm import relax

#: After `LegalizeOps`, after `FuseTIR`, and after the passes that fuse by name.
PHASES = ("legalised", "fused", "last")
#: What fusions are counted on: the lowered graph without the pipeline's own fusions.
PLAIN = "plain"
ROWS = {"max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
BATCH = 4


def phases(
    config: Mapping[str, Any], architecture: str, quantization: str
) -> Iterator[tuple[str, Any]]:
    """Yield the name of a phase and the module after it."""
    compiling = _mlc("interface.compile")
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_80", "thread_warp_size": 32, **ROWS},
                               host={"kind": "llvm"})  # fmt: skip
    model, quantize = (
        _mlc("model").MODELS[architecture],
        _mlc("quantization").QUANTIZATION[quantization],
    )
    settings = model.config.from_dict(dict(config))
    with target:
        _mlc("op").enable(target=target, flashinfer=False, faster_transformer=False, cutlass=False)
        module, _ = model.quantize[quantize.kind](settings, quantize)
        mod, params, _ = module.export_tvm(spec=module.get_default_spec(), allow_extern=True)
        extra = compiling._apply_preproc_to_params_and_check_pipeline(params, settings)
        metadata = {
            "model_type": model.name, "quantization": quantize.name, "model_task": "chat",
            "context_window_size": settings.context_window_size, "sliding_window_size": -1,
            "attention_sink_size": -1, "prefill_chunk_size": settings.prefill_chunk_size,
            "tensor_parallel_shards": 1, "pipeline_parallel_stages": 1, "disaggregation": False,
            "kv_state_kind": compiling._infer_kv_state_kind(model.name), "max_batch_size": BATCH,
            "active_vocab_size": None,
        }  # fmt: skip
        attached = _applied(_attaching(target, metadata, extra, settings), mod)
        yield PLAIN, _applied(_lowering(), attached)
        legalised = _applied(_lowering(), _applied(_graph_fusions(target), attached))
        yield "legalised", legalised
        fused = _applied(_fusing(), legalised)
        yield "fused", fused
        yield "last", _applied(_fusions_by_name(), fused)


def _mlc(name: str) -> Any:
    """A module of MLC-LLM, as `checkout.import_mlc` provides it."""
    return importlib.import_module(f"mlc_llm.{name}")


def _applied(passes: list[Any], mod: Any) -> Any:
    for run in passes:
        mod = run(mod)
    return mod


def _attaching(target: Any, metadata: dict[str, Any], extra: Any, settings: Any) -> list[Any]:
    passes = _mlc("compiler_pass.pipeline")

    bounds = {"total_seq_len": settings.context_window_size, "batch_size": BATCH,
              "seq_len": settings.prefill_chunk_size}  # fmt: skip
    return [
        passes.DispatchKVCacheCreation(target, False, metadata),
        passes.AttachSoftmaxWithTemperature(target, metadata),
        passes.AttachVariableBounds(bounds),
        passes.AttachLogitProcessFunc(target),
        passes.AttachAdditionalPrimFuncs(extra),
        passes.AttachAllocEmbeddingTensorFunc(metadata),
        passes.AttachGPUSamplingFunc(target, bounds),
        passes.AttachSpecDecodeAuxFuncs(1),
        passes.AttachMemoryPlanAttr(),
        passes.AttachSequenceLengthPaddingFactor(target, metadata),
        tvm.tirx.transform.BindTarget(target),
    ]


def _graph_fusions(target: Any) -> list[Any]:
    passes = _mlc("compiler_pass.pipeline")

    return [passes.FuseFTDequantizeEpilogue(), passes.FuseDequantizeTranspose(),
            passes.FuseAddRMSNorm(target=target), passes.FuseTransposeMatmul()]  # fmt: skip


def _lowering() -> list[Any]:
    return [relax.backend.DispatchSampling(), relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps()]  # fmt: skip


def _fusing() -> list[Any]:
    return [relax.transform.AnnotateTIROpPattern(), relax.transform.FoldConstant(),
            relax.transform.FuseOps(), relax.transform.FuseTIR()]  # fmt: skip


def _fusions_by_name() -> list[Any]:
    passes = _mlc("compiler_pass.pipeline")

    return [
        passes.FuseDequantizeMatmulEwise(),
        passes.FuseDequantizeTake(),
        relax.transform.DeadCodeElimination(),
        passes.CleanUpTIRAttrs(["op_pattern"]),
    ]
