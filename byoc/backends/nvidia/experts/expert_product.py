"""Read a PrimFunc as a product of each row with a matrix of its own, of several experts.

    y[r, n] = sum over k of x[r, k] * w[ids[r], n, k]          w stored in full, or group_dequantize

The operators are recognised and proved: a gather of matrices, and a product over the last axis.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from .....analysis.blocks.tir import static
from .....analysis.chain.chain_result import Step
from .....analysis.composites.grouped import DEQUANTIZE
from .....analysis.lifting.tir.node import items
from .....analysis.results.op_info import OpInfo
from ..grouped_weights.grouped_product import Experts, GroupedProduct, proved_chain
from ..grouped_weights.storage import HALF_LANES, HALVES, refused
from ..schedules.program.gpu_program import NoGpuSchedule, product
from ..schedules.program.thread_loops import INDEX

#: Dtypes of the numbers of experts.
NUMBERS = ("int32", "int64")
#: The extents of experts, columns and depth.
RANK = 3


def has_experts(func: Any) -> bool:
    """Return whether parameters may be matrices of experts and the experts of rows."""
    shapes = [_shape(p) for p in func.params]
    if not shapes or len(shapes[-1]) != RANK - 1 or not all(shapes[-1]):
        return False
    rows, columns = shapes[-1]
    numbers = any(product(s) == rows and str(p.ty.dtype) in NUMBERS
                  for p, s in zip(func.params, shapes, strict=True) if s)  # fmt: skip
    return numbers and any(len(s) == RANK and s[1] == columns for s in shapes)


def _shape(param: Any) -> list[int]:
    """The extents of a parameter, 0 for symbolic ones; none if it is not a tensor."""
    return [static(e) or 0 for e in items(getattr(getattr(param, "ty", None), "shape", None) or ())]


def expert_product(func: Any) -> GroupedProduct:
    """Return the product of rows with matrices of their experts that a PrimFunc computes.

    Raises:
        NoGpuSchedule: It computes something else, or not all of it is proved.
    """
    if not bool((func.attrs or {}).get("tirx.noalias", False)):
        raise NoGpuSchedule("the parameters may overlap: the attribute tirx.noalias is missing")
    chain, params = proved_chain(func), items(func.params)
    weights, gather, multiply = _steps(chain.steps)
    ids = params[_param(chain.steps, gather.operands[1])]
    x = params[_param(chain.steps, multiply.operands[0])]
    rows = product(_shape(ids))
    matrices = [gather.operands[0]] if weights is None else weights.operands
    words, *others = (params[_param(chain.steps, v)] for v in matrices)
    (count, columns, _), (*outer, depth), result = _shape(words), _shape(x), params[-1]
    if not count or _shape(result) != [rows, columns] or len(outer) != 1:
        raise NoGpuSchedule("the result is not a matrix of rows and columns")
    if outer[0] != (rows if _has_rows(multiply) else 1):
        raise NoGpuSchedule("activations are summed over rows")
    experts = Experts(ids, tirx.Var("row", INDEX), rows)
    if weights is None:
        dtypes = {str(t.ty.dtype) for t in (x, words)}
        if len(dtypes) != 1 or not dtypes <= set(HALVES) or depth % HALF_LANES:
            raise NoGpuSchedule("the weights are not matrices of halves in rows of vectors")
        return GroupedProduct(None, x, words, None, None, None, 1, 1, columns, depth, 16, 16,
                              depth, 0.0, None, None, result, experts)  # fmt: skip
    attrs = weights.attrs
    packed = attrs.get("packed_axis")
    if len(others) != 1 or {int(attrs["axis"]), int(2 if packed is None else packed)} != {2}:
        raise NoGpuSchedule("it has zero points, or groups are not along sums")
    dtypes_of = [str(t.ty.dtype) for t in (words, others[0], x)]
    flat = {**attrs, "axis": 1, "packed_axis": None}
    if (reason := refused(flat, _shape(words)[1:], depth, dtypes_of)) is not None:
        raise NoGpuSchedule(reason)
    return GroupedProduct(
        None, x, words, others[0], None, None, 1, 1, columns, depth,
        int(tvm.DataType(dtypes_of[0]).bits), int(attrs["bits"]), int(attrs["group_size"]),
        float(attrs.get("offset") or 0.0), None, None, result, experts,
    )  # fmt: skip


def _steps(steps: tuple[Step, ...]) -> tuple[Step | None, Step, Step]:
    """The dequantisation, if there is one, the gather of matrices, and the product."""
    by_name = {s.operator.name: k for k, s in enumerate(steps)}
    known = {"relax.reshape", DEQUANTIZE, "relax.take", "relax.einsum"}
    if len(by_name) != len(steps) or not set(by_name) <= known:
        raise NoGpuSchedule("it is not a product with gathered matrices")
    gather, multiply = (steps[by_name[n]] if n in by_name else None
                        for n in ("relax.take", "relax.einsum"))  # fmt: skip
    if gather is None or multiply is not steps[-1]:
        raise NoGpuSchedule("it is not a product with gathered matrices")
    if int(gather.attrs["axis"]) != 0 or gather.attrs["mode"] != "fast":
        raise NoGpuSchedule("matrices are not gathered along their first axis")
    weights = steps[by_name[DEQUANTIZE]] if DEQUANTIZE in by_name else None
    if not all(isinstance(s.info, OpInfo) for s in steps):
        raise NoGpuSchedule("an operand has a permuted layout")
    if weights is not None and _step(gather.operands[0]) != by_name[DEQUANTIZE]:
        raise NoGpuSchedule("the gathered matrices are not the dequantised ones")
    if len(multiply.operands) != 2 or _step(multiply.operands[1]) != by_name["relax.take"]:
        raise NoGpuSchedule("the gathered matrices are not multiplied with rows")
    if not _is_product(multiply):
        raise NoGpuSchedule("the gathered matrices are not multiplied row by row")
    return weights, gather, multiply


def _is_product(step: Step) -> bool:
    """Whether an einsum is ``rk,rnk->rn``, or ``uk,rnk->rn`` over rows ``u``."""
    left, right, result = _subscripts(step)
    if len(right) != RANK or len(set(right)) != RANK or len(left) != RANK - 1:
        return False
    return result == right[:2] and left[1] == right[2] and left[0] not in right[1:]


def _has_rows(step: Step) -> bool:
    """Whether each row has activations of its own."""
    left, right, _ = _subscripts(step)
    return left[0] == right[0]


def _subscripts(step: Step) -> list[str]:
    """The subscripts of both operands and of the result of an einsum."""
    return str(step.attrs["subscripts"]).replace("->", ",").split(",")


def _step(value: Any) -> int | None:
    """The step that computes a value; None if it is a parameter."""
    return getattr(value, "step", None)


def _param(steps: tuple[Step, ...], value: Any) -> int:
    """The parameter that a value is, perhaps reshaped."""
    place = _step(value)
    if place is not None and steps[place].operator.name == "relax.reshape":
        (value,) = steps[place].operands
    if not isinstance(value, int):
        raise NoGpuSchedule("an operand is not a parameter")
    return value
