"""A made-up backend with strict patterns, to miss them narrowly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.region import Region
from opinfo.byoc.patterns.pattern import Node, Pattern, many, maybe, one
from opinfo.byoc.patterns.suggest import Unmet, bind, cast


def float32(node: Node) -> Unmet | None:
    dtype = node.result.dtype
    if dtype == "float32":
        return None
    return Unmet(f"the dtype is {dtype}, expected float32", cast(dtype, "float32"))


def attribute(name: str, *taken: Any) -> Callable[[Node], str | None]:
    def check(node: Node) -> str | None:
        found = node.info.attrs[name]
        found = list(found) if isinstance(found, (list, tuple)) else found
        choices = " or ".join(map(str, taken))
        return None if found in taken else f"{name} is {found}, expected {choices}"

    return check


def static(node: Node) -> Unmet | None:
    shape = node.result.shape
    if all(isinstance(e, int) for e in shape):
        return None
    return Unmet(f"the shape {shape} is symbolic, expected a static shape", bind(shape))


def constant(node: Node) -> str | None:
    kernel = node.operand(1)
    return None if kernel is not None and kernel.constant else "the kernel is not constant"


def channels(node: Node) -> str | None:
    (bias,) = node.others
    size = node.result.shape[1]
    fits = bias.shape == (1, size, 1, 1)
    return None if fits else f"the bias is {bias.shape}, expected {(1, size, 1, 1)}"


def matrices(node: Node) -> str | None:
    ranks = [v.rank for v in (node.operand(0), node.operand(1)) if v is not None]
    return None if ranks == [2, 2] else f"the operands have rank {ranks}, expected [2, 2]"


def last(node: Node) -> str | None:
    axes = [int(a) for a in node.info.attrs["axes"]]
    rank = node.result.rank
    return None if axes in ([-1], [rank - 1]) else f"axes is {axes}, expected the last axis"


CONV = (float32, attribute("data_layout", "NCHW"), attribute("kernel_layout", "OIHW"),
        attribute("groups", 1), attribute("dilation", [1, 1]), static, constant)  # fmt: skip
PATTERNS = (
    Pattern("conv_relu", one("relax.nn.conv2d", *CONV), maybe("relax.add", channels),
            one("relax.nn.relu")),
    Pattern("matmul", one("relax.matmul", float32, matrices), many(("relax.exp", "relax.tanh"))),
    Pattern("pool", one("relax.nn.max_pool2d", attribute("ceil_mode", False, 0),
                        attribute("layout", "NCHW"))),
    Pattern("global_pool", one("relax.nn.adaptive_avg_pool2d", attribute("output_size", [1, 1]))),
    Pattern("layer_norm", one("relax.nn.layer_norm", last)),
)  # fmt: skip


def convert(regions: Sequence[Region]) -> Code:
    return Code("", tuple(r.symbol for r in regions))


NPU = Backend("npu", PATTERNS, convert)
