"""Run a kernel of our own, or TVM's, on a batch, and compare it with numpy."""

from __future__ import annotations

import inspect
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.paged.library_generators import gpu_target
from opinfo.analysis.support.ir.constructors import constructor_of
from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.prepare.paged.own_attention import own_attention
from opinfo.byoc.prepare.unwritten.defined_loops import single_elements
from opinfo.testing.strip import strip

from ....common.run import sooner
from .attention_cases import Array, Batch, Case

library = pytest.importorskip("tvm.relax.frontend.nn.llm.kv_cache")
#: TVM's generators of kernels for trees.
TREES = {"tree": "tree_attn", "paged tree": "tree_attn_with_paged_kv_cache"}
ERRORS = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}


def generated(kind: str, case: Case, cpu: bool) -> Any:
    """TVM's kernel for a case, without names."""
    groups, heads, features, dtype = case.sizes
    where = () if cpu else (gpu_target(),)
    page = {} if case.page == 16 else {"page_size": case.page}
    suffix = "_cpu" if cpu else ""
    scaling = dict(case.scaling)
    if kind in TREES:
        return strip(getattr(library, f"{TREES[kind]}{suffix}")(*case.sizes, scaling, *where))
    if kind == "ragged":
        make = getattr(library, f"_attention_prefill_ragged{suffix}")
        return strip(make(groups, heads, features, features, dtype, scaling, *where))
    make = getattr(library, f"_attention_{kind}{suffix}")
    window = {"sliding_window_size": case.window} if case.window and kind == "prefill" else {}
    return strip(make(*case.sizes, bool(case.hidden), scaling, *where, **page, **window))


def attended(
    kind: str, case: Case, cpu: bool = False, target: Any = None, own: bool = True
) -> list[Array]:
    """What the own kernel computes, or TVM's, and what numpy does."""
    func = generated(kind, case, cpu)
    info = op_info(func)
    assert isinstance(info, OpInfo)
    batch = Batch(case)
    batch.ragged() if kind in ("ragged", "tree") else batch.paged()
    names = inspect.signature(constructor_of(info.name)).parameters
    roles = dict(zip(info.operands, names, strict=False))
    outputs = [np.zeros_like(batch.operands["query"]),
               np.zeros(batch.operands["query"].shape[:2], "float32")]  # fmt: skip
    rest = iter(map(tvm.runtime.tensor, outputs))
    arguments = [
        _argument(param, batch.operands[roles[k]]) if k in roles else
        next(rest) if is_buffer_var(param) and "float" in str(param.ty.dtype) else
        _argument(param, batch.unread(k)) for k, param in enumerate(func.params)
    ]  # fmt: skip
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    new = own_attention(mod, target or native_target())
    assert not new["main"].same_as(mod["main"])
    target = target or native_target()
    built = tvm.compile(new if own else single_elements(mod), target=sooner(target))
    built["main"](*arguments)
    out, merged = (a.numpy() for k, a in enumerate(arguments)
                   if k not in roles and is_buffer_var(p := func.params[k])
                   and "float" in str(p.ty.dtype))  # fmt: skip
    if case.dtype == "bfloat16" and out.dtype == "uint16":  # TVM's arrays have its bits
        out = out.view(ml_dtypes.bfloat16)
    return [out, merged, *batch.attention()]


def _argument(param: Any, value: Any) -> Any:
    return tvm.runtime.tensor(value) if is_buffer_var(param) else value


def check(kind: str, case: Case, cpu: bool = False, target: Any = None, own: bool = True) -> None:
    out, merged, expected, logarithms = attended(kind, case, cpu, target, own)
    error = ERRORS[case.dtype]
    assert np.abs(expected).max() > 0.2
    np.testing.assert_allclose(out.astype("float64"), expected, rtol=error, atol=error)
    np.testing.assert_allclose(merged, logarithms, rtol=error, atol=error)
