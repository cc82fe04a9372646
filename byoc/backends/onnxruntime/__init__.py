"""ONNX Runtime on CPUs, from PyPI: subgraphs as ONNX models; and files of models.

It divides integers by the CPU's instruction: in ONNX Runtime 1.32, `Div` of the least integer by -1
ends the process, and 0 as a divisor fails. The import of a model guards both.
"""

from __future__ import annotations

from ...backend.backend import Backend, OnnxReader
from ...patterns.clamped_values import literals
from ...patterns.pattern import Node
from ...patterns.value_bounds import bounds
from ..onnx_models.region_cost import cost
from ..onnx_operators.graph.element_types import DLPACK, WIDER
from ..onnx_operators.onnx_writers import network
from .convert import convert, convert_file
from .locate import available, version

#: ONNX defines these operators in one layout only.
WANTS = {"relax.nn.conv2d": ("NCHW", "OIHW")}
NETWORK = network()
_QUOTIENTS = frozenset(f"relax.{n}" for n in ("divide", "floor_divide", "mod", "floor_mod"))


def divides(node: Node) -> str | None:
    """Integers of a file are divided by numbers other than 0 and -1."""
    dtype = node.result.dtype
    if node.info.name not in _QUOTIENTS or "int" not in dtype:
        return None
    divisor = node.operand(1)
    within = bounds(divisor, node.infos) if divisor is not None else _literal(node)
    if within is not None and (within[0] > 0 or within[1] < -1):
        return None
    return f"{node.info.name} of {dtype} by what may be 0 or -1, which may end the process"


def _literal(node: Node) -> tuple[float, float] | None:
    numbers = [x for x in literals(node) if isinstance(x, (int, float))]
    return (min(numbers), max(numbers)) if numbers else None


ONNXRUNTIME = Backend(
    "onnxruntime", (), convert, available, WANTS, cost, version, coarse=(NETWORK,),
    reader=OnnxReader(convert_file, frozenset((*DLPACK, *WIDER)), (divides,), takes_unknown=True,
                      checks_indices=True),
    widens=True,
)  # fmt: skip
