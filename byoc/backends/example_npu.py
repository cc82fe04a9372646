"""A simulated accelerator: an example of a backend with coarse patterns.

It computes convolutions, pools, sums and relu of float16 in NHWC, in its own memory. The device
does not exist: `run` interprets its programs in numpy. Import this module before loading a library
for it.

    opinfo compile model.onnx -o model.so --backend example_npu,tvm
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi

from ...analysis.proposal.proposal import Constant
from ...analysis.results.plain_values import to_plain
from ..backend.backend import Backend, Code
from ..backend.region import Array, Call, Region, Tensor
from ..codegen.abi import ABI
from ..patterns.conditions import attribute, dtype
from ..patterns.pattern import one
from ..patterns.subgraphs import Coarse
from ..patterns.suggest import want

CONV, POOL = "relax.nn.conv2d", "relax.nn.max_pool2d"
WANTS = {CONV: ("NHWC", "OHWI"), POOL: ("NHWC",)}
NETWORK = Coarse(
    "network",
    one(CONV, dtype("float16"), attribute("data_layout", "NHWC", want(CONV, WANTS[CONV])),
        attribute("kernel_layout", "OHWI", want(CONV, WANTS[CONV])), attribute("groups", 1)),
    one(POOL, dtype("float16"), attribute("layout", "NHWC", want(POOL, WANTS[POOL])),
        attribute("ceil_mode", False)),
    one(("relax.add", "relax.nn.relu"), dtype("float16")),
)  # fmt: skip

#: The device gets programs and weights at load time, and the number of a program at run time.
HEAD = """static int64_t device = -1;
OPINFO_FUNCTION(__init_%s) {
  TVMFFIAny made{};
  if (int code = opinfo::forward("example_npu.load", {}, args, count, &made)) return code;
  device = made.v_int64;
  *result = opinfo::integer(0);
  return 0;
}
"""
BODY = """OPINFO_FUNCTION(%s) {
  return opinfo::forward("example_npu.run", {device, %d}, args, count, result);
}
"""


def convert(regions: Sequence[Region]) -> Code:
    """All regions of a model, as one C++ file that drives the device."""
    symbols = tuple(r.symbol for r in regions)
    source, programs = ABI + HEAD % symbols[0], []
    image: list[Array] = []
    for k, region in enumerate(regions):
        steps = [
            (call.op, _plain(call), [_place(o, len(image)) for o in call.operands])
            for call in region.calls
        ]
        programs.append((steps, [t.index for t in region.results]))
        image += region.constants
        source += BODY % (region.symbol, k)
    code = np.frombuffer(json.dumps(programs).encode(), "uint8")
    named = tuple((f"{symbols[0]}_{k}", a) for k, a in enumerate([code, *image]))
    return Code(source, symbols, named)


def _plain(call: Call) -> dict[str, Any]:
    return {
        key: to_plain(call.attrs[key])
        for key in ("strides", "padding", "dilation", "pool_size", "x1", "x2")
        if key in call.attrs
    }


def _place(operand: Tensor | Constant, image: int) -> tuple[str, float]:
    """The place of an operand in the memory, or its literal."""
    if isinstance(operand, Constant):
        return "literal", float(operand.value)
    return operand.source, operand.index + image * (operand.source == "constant")


def _windows(array: Array, attrs: Any, size: Sequence[int], fill: float) -> Array:
    """The window of each result: (N, H, W, C, y, x) for an array (N, H, W, C)."""
    (top, left, bottom, right), (sy, sx), (dy, dx) = map(
        attrs.get, ("padding", "strides", "dilation")
    )
    array = np.pad(array, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    reach = [(k - 1) * d + 1 for k, d in zip(size, (dy, dx), strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(array, reach, (1, 2))
    return views[:, ::sy, ::sx, :, ::dy, ::dx].astype("float32")


COMPUTE: dict[str, Callable[..., Array]] = {
    "relax.nn.conv2d": lambda attrs, data, weights: np.einsum(
        "nhwcyx,oyxc->nhwo", _windows(data, attrs, weights.shape[1:3], 0),
        weights.astype("float32")),
    "relax.nn.max_pool2d": lambda attrs, data: _windows(
        data, attrs, attrs["pool_size"], -np.inf).max((4, 5)),
    "relax.add": lambda attrs, *terms: np.add(
        *terms, *(np.float16(attrs[k]) for k in ("x1", "x2") if k in attrs)),
    "relax.nn.relu": lambda attrs, data: np.maximum(data, 0),
}  # fmt: skip
LOADED: list[tuple[Any, list[Array]]] = []


def load(image: Sequence[Any]) -> int:
    """Put programs and weights into the device's memory."""
    code, *weights = (t.numpy() for t in image)
    LOADED.append((json.loads(code.tobytes()), weights))
    return len(LOADED) - 1


def run(device: int, program: int, *tensors: Any) -> None:
    """Copy the inputs in, run a program, copy its results out."""
    programs, weights = LOADED[device]
    steps, results = programs[program]
    count = len(tensors) - len(results)
    memory: dict[str, list[Array]] = {
        "input": [t.numpy() for t in tensors[:count]], "constant": weights, "call": [],
    }  # fmt: skip
    for op, attrs, operands in steps:
        values = [np.float16(k) if at == "literal" else memory[at][k] for at, k in operands]
        memory["call"].append(COMPUTE[op](attrs, *values).astype("float16"))
    for tensor, k in zip(tensors[count:], results, strict=True):
        tensor.copyfrom(memory["call"][k])


for name, function in (("load", load), ("run", run)):
    tvm_ffi.register_global_func(f"example_npu.{name}", function, override=True)
NPU = Backend("example_npu", (), convert, wants=WANTS, coarse=(NETWORK,))
