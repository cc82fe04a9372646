"""Seeded inputs of trial runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax

from ..analysis.lifting.tir.node import NodeDict, items
from ..analysis.support.tvm_compat import GenericConst, array_of
from ..jit.arguments.extent import value
from ..jit.arguments.signature import Param, Signature
from .trial_sizes import ComparedModule, SizedCall, sized_calls
from .trial_values import ShapeArgument, TrialCall, as_tensors

Array = np.ndarray[Any, Any]
#: Value of symbolic extents.
EXTENT = 2
#: Operators that keep the values of a tensor.
_KEEP = ("relax.astype", "relax.reshape", "relax.squeeze", "relax.expand_dims")


def trial_inputs(mod: Any, seed: int) -> list[Array]:
    """Return seeded values of the parameters of `main`.

    Integers are 0 or 1, or the number that the program tests a parameter for: such a test chooses
    the branch of a conditional, as a sampling rate does, and another one may not run at this size.
    """
    rng = np.random.default_rng(seed)
    tested = _tested(mod["main"])
    out = []
    for param in mod["main"].params:
        shape = [int(getattr(e, "value", EXTENT)) for e in param.ty.shape.values]
        out.append(_drawn(rng, shape, str(param.ty.dtype), tested.get(param)))
    return out


def trial_calls(model: Any) -> list[TrialCall]:
    """Return the seeded calls by which builds of a module are compared, with tensors.

    Args:
        model: A module, or a `ComparedModule`.

    Raises:
        ValueError: A parameter cannot be drawn.
    """
    subject = model if isinstance(model, ComparedModule) else ComparedModule(model)
    return [TrialCall(c.function, as_tensors(_arguments(subject.mod, c)))
            for c in sized_calls(subject)]  # fmt: skip


def undrawable(signature: Signature) -> Param | None:
    """Return a parameter whose value cannot be drawn, such as a tensor of any rank, or None."""
    unknown = (p for p in signature.leaves() if p.kind not in ("tensor", "shape", "number")
               or (p.kind != "number" and p.shape is None) or (p.kind != "shape" and not p.dtype)
               or None in (p.shape or ()))  # fmt: skip
    return next(unknown, None)


def _arguments(mod: Any, call: SizedCall) -> tuple[Any, ...]:
    """Return seeded arguments of a call, in which tensors are arrays."""
    func, rng = mod[call.function], np.random.default_rng(0)
    tested = _tested(func)

    def drawn(param: Param, number: int | None) -> Any:
        if param.kind == "tuple":
            return tuple(drawn(part, None) for part in param.fields)
        shape = [value(extent, call.sizes) for extent in param.shape or ()]
        known = [extent for extent in shape if extent is not None]
        if len(known) < len(shape) or min(known, default=0) < 0:
            raise ValueError(f"{param}: its shape does not follow from {call}")
        if param.kind == "shape":
            return ShapeArgument(tuple(known))
        if param.kind == "number":
            return 1.0 if "float" in str(param.dtype) else 1
        return _drawn(rng, known, str(param.dtype), number)

    params = Signature.of(func, call.function).params
    return tuple(drawn(p, tested.get(v)) for p, v in zip(params, func.params, strict=True))


def _drawn(rng: Any, shape: Sequence[int], dtype: str, number: int | None) -> Array:
    """Return a random array, or one of a number."""
    floats = "float" in dtype
    drawn = rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)
    return np.asarray(drawn if number is None else np.full(shape, number)).astype(dtype)


def _tested(func: Any) -> NodeDict[int]:
    """Return the integer that a parameter is first tested to be equal to, by parameter."""
    source: NodeDict[Any] = NodeDict()
    for param in func.params:
        source[param] = param
    out: NodeDict[int] = NodeDict()

    def visit(binding: Any) -> None:
        call = binding.value
        name = str(getattr(getattr(call, "op", None), "name", ""))
        if name not in (*_KEEP, "relax.equal"):
            return
        operands = items(call.args)[: 2 if name == "relax.equal" else 1]
        params = [source.get(a) for a in operands if isinstance(a, relax.Var)]
        if len(params) != 1 or params[0] is None:
            return
        if name in _KEEP:
            source[binding.var] = params[0]
            return
        numbers = [array_of(a).numpy() for a in operands if isinstance(a, GenericConst)]
        if numbers and numbers[0].size == 1 and numbers[0].dtype.kind in "iu":
            if params[0] not in out:
                out[params[0]] = int(numbers[0].reshape(-1)[0])

    tvm_ffi.structural_walk(func, (relax.VarBinding, visit))
    return out
