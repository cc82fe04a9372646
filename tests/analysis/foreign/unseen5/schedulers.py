"""What dlight's rules and MetaSchedule's design spaces leave of TVM's own definitions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import tvm
from tvm import te, topi
from tvm.s_tir import dlight, meta_schedule

from opinfo.analysis.support.ir.deep_copy import copied

from ..case import Foreign, tensors
from ..unseen3.programs import lowered
from ..unseen3.schedules import FLAT, UNROLLED

_GPU = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "max_num_threads": 1024,
        "thread_warp_size": 32, "max_shared_memory_per_block": 49152}  # fmt: skip
#: Without tensor cores, whose rules need the intrinsics.
_PLAIN = {**_GPU, "arch": "sm_60"}
_CPU = {"kind": "llvm", "num-cores": 4}


def _product(x: Any, y: Any) -> Any:
    k = te.reduce_axis((0, x.shape[-1]), "k")
    return te.compute(
        (*x.shape[:-1], y.shape[-1]), lambda *i: te.sum(x[(*i[:-1], k)] * y[k, i[-1]], axis=k)
    )


def _weights_by_row(x: Any, w: Any) -> Any:
    k = te.reduce_axis((0, x.shape[-1]), "k")
    return te.compute(
        (1, 1, w.shape[0]), lambda a, b, j: te.sum(x[a, b, k] * w[j, k], axis=k), name="y"
    )


def _norm(x: Any, g: Any, b: Any) -> Any:
    return topi.nn.layer_norm(x, g, b, (1,), 1e-5)


def _conv(x: Any, w: Any) -> Any:
    return topi.nn.conv2d_nchw(x, w, 1, 1, 1)


def _depthwise(x: Any, w: Any) -> Any:
    return topi.nn.depthwise_conv2d_nchw(x, w, (2, 2), 1, 1)


def _pool(x: Any) -> Any:
    return topi.nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg", False, "NCHW", True)


def _dlight(rule: Callable[[], Any], target: dict[str, Any], build: Callable[[], Any]) -> Any:
    """The function after a rule of dlight."""
    module = tvm.IRModule({"main": copied(build()).with_attr("global_symbol", "main")})
    with tvm.target.Target(target):
        return dlight.ApplyDefaultSchedule(rule())(module)["main"]


def _meta(target: dict[str, Any], build: Callable[[], Any]) -> Any:
    """The function after the first sketch of MetaSchedule's rules, with its postprocessors."""
    func = copied(build()).with_attr("global_symbol", "main")
    # A context imports all intrinsics, for tens of seconds; these targets have none.
    unused = {"tvm.s_tir.tensor_intrin": ModuleType("tensor_intrin")}
    with mock.patch.dict(sys.modules, unused):
        context = meta_schedule.TuneContext(
            mod=tvm.IRModule({"main": func}),
            target=tvm.target.Target(target),
            space_generator=meta_schedule.space_generator.PostOrderApply(),
            rand_state=7,
            num_threads=1,
        )
    schedule = context.generate_design_space()[0]
    for step in context.space_generator.postprocs:
        step.apply(schedule)
    return schedule.mod["main"]


PROD = tensors(_product, "24,16", "16,32")
CONV = tensors(_conv, "1,4,7,7", "6,4,3,3")
SOFTMAX = tensors(lambda x: topi.nn.softmax(x, 1), "6,40")
_GEMV = tensors(_weights_by_row, "1,1,64", "48,64")
_TRANSPOSED = {"relax.nn.transposed_matmul": {"transposed": [False, True]}}
_BY_ROW = {"subscripts": "abc,dc->abd"}
_3x3 = {"padding": (1, 1, 1, 1)}
_MM = "relax.matmul"


def gpu(rule: Callable[[], Any], build: Callable[[], Any]) -> Callable[[], Any]:
    """A function after a rule of dlight for GPUs."""
    return partial(_dlight, rule, _GPU, build)


def cpu(build: Callable[[], Any]) -> Callable[[], Any]:
    """A function after MetaSchedule's rules for CPUs."""
    return partial(_meta, _CPU, build)


CASES = [
    Foreign("dlight for GPUs: product of a batch of one",
            gpu(dlight.gpu.Matmul, tensors(_product, "1,40,16", "16,24")), _MM),
    Foreign("dlight for GPUs: weights by row times a vector",
            gpu(dlight.gpu.GEMV, _GEMV), "relax.einsum", _BY_ROW, also=_TRANSPOSED),
    Foreign("dlight for GPUs: sum of rows",
            gpu(dlight.gpu.Reduction, tensors(lambda x: topi.sum(x, 1), "6,40")),
            "relax.sum", {"axis": [1]}),
    Foreign("dlight for GPUs: softmax", gpu(dlight.gpu.GeneralReduction, SOFTMAX),
            "relax.nn.softmax", {"axis": 1}),
    Foreign("dlight for GPUs: layer norm",
            gpu(dlight.gpu.GeneralReduction, tensors(_norm, "6,32", "32", "32")),
            "relax.nn.layer_norm", {"axes": [1], "epsilon": 1e-5},
            also={"relax.nn.group_norm": {
                "num_groups": 1, "channel_axis": 1, "axes": [], "epsilon": 1e-5}}),
    Foreign("dlight for GPUs: transpose",
            gpu(dlight.gpu.Transpose, tensors(lambda x: topi.transpose(x, (1, 0)), "40,24")),
            "relax.permute_dims", {"axes": [1, 0]}),
    Foreign("dlight for GPUs: maximum, fallback",
            gpu(dlight.gpu.Fallback, tensors(topi.maximum, "5,7", "5,7")), "relax.maximum"),
    Foreign("dlight for CPUs: weights by row times a vector",
            partial(_dlight, dlight.cpu.GEMV, _CPU, _GEMV), "relax.einsum", _BY_ROW,
            also=_TRANSPOSED),
    Foreign("dlight for CPUs: softmax", partial(_dlight, dlight.cpu.Reduction, _CPU, SOFTMAX),
            "relax.nn.softmax", {"axis": 1}),
    Foreign("MetaSchedule for CPUs: product", cpu(PROD), _MM),
    Foreign("MetaSchedule for CPUs: convolution", cpu(CONV), "relax.nn.conv2d", _3x3),
    Foreign("MetaSchedule for CPUs: depthwise convolution",
            cpu(tensors(_depthwise, "1,4,8,8", "4,1,3,3")), "relax.nn.conv2d",
            {**_3x3, "strides": (2, 2), "groups": 4}),
    Foreign("MetaSchedule for CPUs: softmax", cpu(SOFTMAX), "relax.nn.softmax", {"axis": 1}),
    Foreign("MetaSchedule for CPUs: average pool, borders counted",
            cpu(tensors(_pool, "1,3,9,9")), "relax.nn.avg_pool2d",
            {**_3x3, "pool_size": (3, 3), "strides": (2, 2), "count_include_pad": True}),
    Foreign("MetaSchedule for CPUs: product, flat and unrolled",
            lowered(cpu(PROD), *UNROLLED), _MM),
    Foreign("MetaSchedule for CPUs: convolution, flat",
            lowered(cpu(CONV), *FLAT), "relax.nn.conv2d", _3x3),
    Foreign("MetaSchedule for GPUs: product", partial(_meta, _PLAIN, PROD), _MM),
    Foreign("MetaSchedule for GPUs: convolution", partial(_meta, _PLAIN, CONV),
            "relax.nn.conv2d", _3x3),
]  # fmt: skip
