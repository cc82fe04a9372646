"""Weights: how a weight is described, drawn, and moved from a constant to a parameter."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax

Array: TypeAlias = NDArray[Any]
Spec: TypeAlias = dict[str, Any]

SMALL = 16


def normal(shape: tuple[int, ...], std: float) -> Spec:
    """A weight drawn from N(0, std)."""
    return {"shape": list(shape), "kind": "normal", "scale": std}


def positive(shape: tuple[int, ...]) -> Spec:
    """A weight drawn from U(0.5, 1.5): scales and variances."""
    return {"shape": list(shape), "kind": "positive", "scale": 1.0}


def stored(index: int, value: Array) -> Spec:
    """A weight whose value is kept in the cache folder."""
    return {"stored": f"w{index}", "value": value}


def fan_in(shape: tuple[int, ...], std: float = 1.0) -> Spec:
    """A weight (O, I, ...) that keeps the variance of its input times `std` squared."""
    return normal(shape, std / math.sqrt(math.prod(shape[1:])))


def draw(index: int, spec: Spec) -> Array:
    """The float32 values of a spec, the same in every run."""
    rng = np.random.default_rng(index)
    shape = tuple(spec["shape"])
    if spec["kind"] == "positive":
        return rng.uniform(0.5, 1.5, shape).astype("float32")
    return rng.standard_normal(shape, dtype="float32") * np.float32(spec["scale"])


@relax.expr_functor.mutator
class _Lift(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule) -> None:
        super().__init__(mod)
        self.lifted: list[tuple[relax.Var, Array]] = []

    def visit_generic_const_(self, const: relax.Constant) -> relax.Expr:
        value = const.value.numpy()
        if value.size <= SMALL or value.dtype.kind != "f":
            return const
        var = relax.Var(f"w{len(self.lifted)}", const.ty)
        self.lifted.append((var, value))
        return var


def lift(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[Array]]:
    """Make each float constant of more than `SMALL` elements a parameter at the end of `main`."""
    mutator = _Lift(mod)
    main = mod["main"]
    body = mutator.visit_expr(main.body)
    params = [*main.params, *(var for var, _ in mutator.lifted)]
    count = int((main.attrs or {}).get("num_input", len(main.params)))
    new = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    out = mod.clone()
    out.update_func(mod.get_global_var("main"), new.with_attr("num_input", count))
    return relax.transform.Normalize()(out), [value for _, value in mutator.lifted]
