"""Integers in float32, and the operators that ONNX Runtime would get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opinfo.byoc.backends.onnx_models.model import model
from opinfo.byoc.dispatching.dispatch import dispatch
from opinfo.byoc.prepare.prepare import prepare

from ....onnx_import.against_runtime import model as onnx_model
from ..onnx_cases import recording

Array = np.ndarray[Any, Any]
SHAPE = (2, 3, 16)
RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(-127, 128, (16, 5))


def written(mod: Any) -> list[list[str]]:
    """The operators of each region that ONNX Runtime would get."""
    backend, regions = recording()
    dispatch(prepare(mod, [backend]), [backend])
    return [
        [n.op_type for n in onnx.load_from_string(model(r, True).tobytes()).graph.node]
        for r in regions
    ]


def quantized(cases: Mapping[str, tuple[Array, Array | None]]) -> Any:
    """For each case DynamicQuantizeLinear, MatMulInteger, and the result in float32."""
    node, nodes = helper.make_node, []
    arrays: dict[str, Any] = {"s": np.float32(0.03)}
    for k, (weights, zero) in enumerate(cases.values()):
        arrays[f"w{k}"] = weights.astype("int8" if zero is None else zero.dtype)
        if zero is not None:
            arrays[f"wz{k}"] = zero
        more = [f"wz{k}"] if zero is not None else []
        nodes += [
            node("DynamicQuantizeLinear", [f"x{k}"], [f"q{k}", f"qs{k}", f"qz{k}"]),
            node("MatMulInteger", [f"q{k}", f"w{k}", f"qz{k}", *more], [f"p{k}"]),
            node("Cast", [f"p{k}"], [f"f{k}"], to=1),
            node("Mul", [f"qs{k}", "s"], [f"scale{k}"]),
            node("Mul", [f"f{k}", f"scale{k}"], [f"y{k}"]),
        ]
    numbers = range(len(cases))
    inputs = {f"x{k}": (SHAPE, "float32") for k in numbers}
    return onnx_model(nodes, inputs, [f"{n}{k}" for k in numbers for n in "yq"], arrays)
