"""TVM's partition functions by table, and the composites that they create in a module."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

import tvm
from tvm import relax
from tvm.ir import GlobalVar

Partition = Callable[[Any], Any]


def _tvms(module: str, name: str) -> Partition:
    """Return a partition function of TVM, imported on use, because importing registers patterns."""

    def run(mod: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(import_module(f"tvm.relax.backend.{module}"), name)(mod)

    return run


def _dnnl(mod: Any) -> Any:
    """Partition for DNNL, for which TVM has code generation but registers no patterns.

    The patterns are those that its runtime takes, from TVM's own constructors of patterns.
    """
    from tvm.relax.backend.patterns import (
        make_fused_bias_activation_pattern as conv,
    )
    from tvm.relax.backend.patterns import make_matmul_pattern as matmul

    relu, gelu = "relax.nn.relu", "relax.nn.gelu"
    patterns = [
        ("dnnl.conv2d_bias_relu", *conv("relax.nn.conv2d", True, relu)),
        ("dnnl.conv2d_bias", *conv("relax.nn.conv2d", True)),
        ("dnnl.conv2d_relu", *conv("relax.nn.conv2d", False, relu)),
        ("dnnl.conv2d", *conv("relax.nn.conv2d")),
        ("dnnl.matmul_bias_relu", *matmul(True, relu)),
        ("dnnl.matmul_bias_gelu", *matmul(True, gelu)),
        ("dnnl.matmul_bias", *matmul(True)),
        ("dnnl.matmul", *matmul()),
    ]
    return relax.transform.FuseOpsByPattern(patterns, annotate_codegen=True)(mod)


TABLES: Mapping[str, Partition] = {
    "cutlass": _tvms("cuda.cutlass", "partition_for_cutlass"),
    "cudnn": _tvms("cuda.cudnn", "partition_for_cudnn"),
    "cublas": _tvms("cuda.cublas", "partition_for_cublas"),
    "tensorrt": _tvms("contrib.tensorrt", "partition_for_tensorrt"),
    "dnnl": _dnnl,
    "hipblas": _tvms("rocm.hipblas", "partition_for_hipblas"),
    "nnapi": _tvms("contrib.nnapi", "partition_for_nnapi"),
}
#: The layouts that a table requires of convolutions; absent if it takes any.
WANTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "cutlass": {"relax.nn.conv2d": ("NHWC", "OHWI")},
    "cudnn": {"relax.nn.conv2d": ("NHWC", "OHWI")},
    "nnapi": {"relax.nn.conv2d": ("NHWC", "OHWI"), "relax.nn.max_pool2d": ("NHWC",)},
}


def composites(mod: Any, table: str) -> Counter[str]:
    """Count the matches of each pattern of a table; the module is not changed.

    If TVM's partition function fails after matching (0.27: those of CUTLASS and cuDNN look for a
    workspace by the printed dtype of an attention), only its patterns are applied.
    """
    try:
        return _called(TABLES[table](_copy(mod)))
    except KeyError:
        with patch.object(_module(table), "annotate_workspace", tvm.transform.Sequential([])):
            return _called(TABLES[table](_copy(mod)))


def _copy(mod: Any) -> Any:
    """Copy a module, since TVM's partition functions modify their argument."""
    return tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)


def _module(table: str) -> Any:
    return import_module(f"tvm.relax.backend.cuda.{table}")


def _called(mod: Any) -> Counter[str]:
    """Count calls of composite functions rather than functions, which equal composites share."""
    counted: Counter[str] = Counter()
    _count(mod, mod["main"], counted)
    return counted


def _count(mod: Any, func: Any, counted: Counter[str]) -> None:
    local: dict[Any, Any] = {}
    for block in func.body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Function):
                local[binding.var] = binding.value
                continue
            callee = _callee(mod, binding.value, local)
            if callee is None:
                continue
            if "Composite" in callee.attrs:
                counted[str(callee.attrs["Composite"])] += 1
            else:
                _count(mod, callee, counted)


def _callee(mod: Any, call: Any, local: Mapping[Any, Any]) -> Any:
    if not isinstance(call, tvm.ir.Call):
        return None
    if isinstance(call.op, GlobalVar):
        func = mod[call.op]
        return func if isinstance(func, relax.Function) else None
    return next((f for v, f in local.items() if v.same_as(call.op)), None)
