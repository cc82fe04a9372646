"""TVM's kernels of attention are known as a whole; their definitions compute the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Chain, OpInfo, op_info, op_infos
from opinfo.analysis.paged.library_generators import gpu_target
from opinfo.analysis.paged.library_kernels import KERNELS, TESTED
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.testing.mutants import mutants, parsed
from opinfo.testing.strip import strip

from ...common.lockstep import execute
from ..recognise.test_composites import module, run
from .paged_inputs import kernel_arguments

library = pytest.importorskip("tvm.relax.frontend.nn.llm.kv_cache")
_SIZES = (1, 2, 32, "float16")
#: A window of 40 keys hides some of the longest sequence.
_WINDOW = 40

SCALINGS: dict[str, dict[str, Any]] = {
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 1,
             "original_max_position_embeddings": 256, "inv_theta_log_scale": 0.054},
    "longrope": {"rope_type": "longrope", "max_position_embeddings": 4096,
                 "original_max_position_embeddings": 64},
}  # fmt: skip

#: The factor of cosine and sine.
SCALED_BY = {"longrope": math.sqrt(1 + math.log(64) / math.log(64))}

GENERATORS: dict[str, tuple[str, Callable[[], Any]]] = {
    "decode": ("paged_decode_attention", lambda: library._attention_decode(
        *_SIZES, False, {}, gpu_target())),
    "decode, sliding": ("paged_decode_attention", lambda: library._attention_decode(
        *_SIZES, True, {}, gpu_target())),
    "prefill": ("paged_prefill_attention", lambda: library._attention_prefill(
        *_SIZES, False, {}, gpu_target())),
    "prefill, sliding": ("paged_prefill_attention", lambda: library._attention_prefill(
        *_SIZES, True, {}, gpu_target(), sliding_window_size=_WINDOW)),
    "ragged": ("ragged_attention", lambda: library._attention_prefill_ragged(
        *_SIZES[:3], *_SIZES[2:], {}, gpu_target())),
    "tree": ("tree_attention", lambda: library.tree_attn(*_SIZES, {}, gpu_target())),
    "paged tree": ("paged_tree_attention", lambda: library.tree_attn_with_paged_kv_cache(
        *_SIZES, {}, gpu_target())),
    "decode, llama3": ("paged_decode_attention", lambda: library._attention_decode(
        *_SIZES, False, SCALINGS["llama3"], gpu_target())),
    "tree, yarn": ("tree_attention", lambda: library.tree_attn(
        *_SIZES, SCALINGS["yarn"], gpu_target())),
    "ragged, longrope": ("ragged_attention", lambda: library._attention_prefill_ragged(
        *_SIZES[:3], *_SIZES[2:], SCALINGS["longrope"], gpu_target())),
    "tree, on a CPU": ("tree_attention", lambda: library.tree_attn_cpu(*_SIZES, {})),
    "paged tree, on a CPU": ("paged_tree_attention",
                             lambda: library.tree_attn_with_paged_kv_cache_cpu(*_SIZES, {})),
    "moves": ("move_in_pages", lambda: library._compact_kv_copy(1, 32, "float16", gpu_target())),
    "moves, on a CPU": ("move_in_pages",
                        lambda: library._compact_kv_copy_cpu(2, 32, "float16", page_size=8)),
    "copies, on a CPU": ("copy_page", lambda: library._copy_single_page_cpu(2, 8, 32, "float16")),
}  # fmt: skip


@cache
def kernel(name: str) -> Any:
    return strip(GENERATORS[name][1]())


@cache
def answer(name: str) -> Any:
    return op_info(kernel(name))


@pytest.mark.parametrize("name", GENERATORS)
def test_a_kernel_of_tvm_is_its_operator(name: str) -> None:
    info = answer(name)
    assert isinstance(info, OpInfo) and info.name == f"relax.nn.{GENERATORS[name][0]}"
    assert info.certificate.kind == "kernel" and not info.certificate.exact
    assert TESTED in info.certificate.assumptions
    if "prefill" in name:
        assert info.attrs == {"window": _WINDOW if "sliding" in name else 0}
    chain = op_infos(kernel(name))
    assert isinstance(chain, Chain) and chain.names == (info.name,)
    assert chain.steps[0].operands == info.operands
    assert chain.inplace_indices == info.inplace_indices


#: Causal or not, and with rotary embeddings or not, where a kernel has these.
RUNS = [
    ("decode", 1, 0),
    ("decode, sliding", 1, 1),
    ("prefill", 0, 1),
    ("prefill, sliding", 1, 0),
    ("ragged", 1, 1),
    ("tree", 1, 1),
    ("paged tree", 1, 0),
    ("decode, llama3", 1, 1),
    ("tree, yarn", 1, 1),
    ("ragged, longrope", 0, 1),
    ("moves", 1, 0),
    ("moves, on a CPU", 1, 0),
    ("copies, on a CPU", 1, 0),
]


@pytest.mark.parametrize(("name", "causal", "turned"), RUNS)
def test_the_definition_computes_what_the_kernel_does(name: str, causal: int, turned: int) -> None:
    func, info = kernel(name), answer(name)
    arguments = kernel_arguments(func, info.name, info.operands, causal=causal, turned=turned)
    after = execute(func, arguments)
    operands = [np.asarray(arguments[k]) for k in info.operands]
    types = [(a.shape, str(a.dtype)) for a in operands]
    mod = relax.transform.LegalizeOps()(module(constructor_of(info.name), *types, **info.attrs))
    out = run(mod, *operands)
    buffers = [k for k, p in enumerate(func.params) if is_buffer_var(p)]
    (outputs,) = {k.outputs for k in KERNELS if k.operator == info.name}
    for place, actual in zip(
        outputs, out if isinstance(out, (list, tuple)) else [out], strict=True
    ):
        expected = after[buffers.index(place)]
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(actual, expected, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("name", ["decode", "prefill, sliding", "tree", "moves", "moves, on a CPU",
                                  "copies, on a CPU"])  # fmt: skip
def test_no_mutant_of_a_kernel_is_the_operator(name: str) -> None:
    whole = op_info(parsed(kernel(name).script()))
    assert isinstance(whole, OpInfo) and whole.certificate.kind == "kernel"
    for change, func in islice(mutants(kernel(name)), 3):
        assert not isinstance(op_info(func), OpInfo), f"{name}: {change}"


@pytest.mark.parametrize("kind", ["gptj", "llama4"])
def test_other_scalings_are_refused(kind: str) -> None:
    """Their frequencies are those of neighbours, and TVM's attention turns halves."""
    scaling = {**SCALINGS["llama3"], "rope_type": kind}
    assert not op_info(strip(library._attention_decode(*_SIZES, False, scaling, gpu_target())))


def test_rotations_with_different_scalings_are_refused() -> None:
    """A scaling is that of all rotations; here, the first one has another factor."""
    func = library._attention_decode(*_SIZES, False, SCALINGS["longrope"], gpu_target())
    places = iter(range(1000))

    def let(node: Any, mutator: Any) -> Any:
        if next(places):
            return node
        factor = SCALED_BY["longrope"]
        body = tvm_ffi.structural_mutate(node.body, [(tirx.FloatImm, lambda x, _: (
            tirx.FloatImm("float32", 1.5) if abs(x.value - factor) < 1e-6 else x))])  # fmt: skip
        return tirx.Let(node.var, node.value, body)

    other = func.with_body(tvm_ffi.structural_mutate(func.body, [(tirx.Let, let)]))
    assert isinstance(op_info(strip(func)), OpInfo)
    assert not tvm_ffi.structural_equal(other, func) and not op_info(strip(other))


def test_a_kernel_for_other_threads_is_refused() -> None:
    target = tvm.target.Target({"kind": "vulkan", "max_num_threads": 256,
                                "max_threads_per_block": 256})  # fmt: skip
    func = library._attention_decode(*_SIZES, False, {}, target)
    assert not op_info(func)
