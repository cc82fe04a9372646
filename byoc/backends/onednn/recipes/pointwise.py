"""Chains of pointwise operators without an anchor."""

from __future__ import annotations

from ....backend.region import Tensor
from ...common.region_source import literal
from .post import BINARY, eltwise_of, follow, scalar
from .recipe import OperandView, Recipe
from .source import OneDnnFunction


def pointwise(frame: OneDnnFunction) -> Recipe:
    """An elementwise operator: of one tensor and literals, or of two tensors."""
    call, *epilogue = frame.region.calls
    tensors = [o for o in call.operands if isinstance(o, Tensor)]
    rank = len(frame.region.result.shape)

    def turned(tensor: Tensor) -> OperandView:
        return frame.of(tensor).expanded(rank)

    algorithm = eltwise_of(call.op, call.attrs) or scalar(
        call.op, literal(call, "x1"), literal(call, "x2")
    )
    views = {"src": frame.of(tensors[0]), "dst": frame.out}
    if algorithm is not None:
        how, alpha, beta = algorithm
        recipe = Recipe("eltwise").views(**views).algorithm(f"eltwise_{how}", alpha, beta)
    else:
        views["other"] = turned(tensors[1])
        recipe = Recipe("binary").views(**views).algorithm(BINARY[call.op])
    return follow(recipe, epilogue, turned)
