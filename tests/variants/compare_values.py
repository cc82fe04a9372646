"""Compare the results of two readings of a variant on random inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import OpInfo
from opinfo.analysis.answer.recovered import Recovered
from opinfo.analysis.proposal.attribute_values import to_prim
from opinfo.analysis.terms.term import Int, TensorVar, Var

from ..common.run import run
from . import Variant, fill
from .canonical import at
from .lower import Lowered, dimensions, tensor, unlegalised, with_sizes


def size_values(low: Lowered, found: Recovered) -> dict[Var, Any]:
    """Each size of the answer as an expression over the variant's letters."""
    values: dict[Var, Any] = {}
    for p, mine in zip(low.func.params, found.params, strict=True):
        if isinstance(mine, Var):
            values.setdefault(mine, low.sizes[str(p.name)])
        else:
            for e, f in zip(p.ty.shape, mine.shape, strict=True):
                if isinstance(f.atom, Var):
                    values.setdefault(f.atom, _over_letters(e, low.sizes))
    return values


def _over_letters(expr: Any, letters: Mapping[str, Any]) -> Any:
    def letter(var: Any) -> Any:
        return letters.get(str(var.name), var)

    return tvm_ffi.structural_map(expr, (tvm.ir.Var, letter))


def unequal(v: Variant, low: Lowered, found: Recovered, info: OpInfo) -> str:
    """Why two calls are not the same function, found by running both; empty if they are."""
    try:
        mine = concrete(
            v, v.op, v.operands, {k: with_sizes(a, _sizes(v)) for k, a in v.attrs.items()}
        )
    except Exception as e:
        return f"what was built does not run: {type(e).__name__} {str(e)[:80]}"
    operands: list[Any] = []
    fixed = {x: at(e, _sizes(v)) for x, e in size_values(low, found).items()}
    places = []
    for o in info.operands:
        if not isinstance(o, int):
            operands.append(relax.const(o.value, o.dtype))
            continue
        t = found.params[o]
        assert isinstance(t, TensorVar)
        shape = [_value(e, fixed) for e in t.shape]
        operands.append(f"{t.dtype}[{', '.join(map(str, shape))}]")
        places.append(low.operands.index(o))
    attrs = {k: _fixed(a, fixed) for k, a in info.attrs.items()}
    try:
        theirs = concrete(v, info.name, operands, attrs)
    except Exception as e:
        return f"the answer does not run: {type(e).__name__} {str(e)[:80]}"
    inputs = [random_input(t, k) for k, t in enumerate(concrete_types(v))]
    return _compare(outputs(mine, inputs), outputs(theirs, [inputs[k] for k in places]))


def _compare(a: list[Any], b: list[Any]) -> str:
    if len(a) != len(b):
        return f"{len(a)} outputs and {len(b)}"
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape:
            return f"shapes {x.shape} and {y.shape}"
        tolerance = 2e-2 if "16" in str(x.dtype) or "16" in str(y.dtype) else 1e-4
        if not np.allclose(x.astype("float64"), y.astype("float64"), tolerance, tolerance, True):
            return "other numbers"
    return ""


def _sizes(v: Variant) -> dict[str, Any]:
    return dict(v.sizes)


def _value(e: Any, fixed: Mapping[Any, Any]) -> int:
    return at(to_prim(e, {x: tirx.IntImm("int64", n) for x, n in fixed.items()}), {})


def _fixed(a: Any, fixed: Mapping[Any, Any]) -> Any:
    if isinstance(a, Int):
        return _value(a, fixed)
    if isinstance(a, (list, tuple)):
        return type(a)(_fixed(x, fixed) for x in a)
    return a


def concrete_types(v: Variant) -> list[str]:
    return [fill(t, v.sizes) for t in v.operands]


def concrete(v: Variant, op: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The module of a call over operands with literal shapes, given as types or constants."""
    args = [
        tensor(f"p{k}", fill(t, v.sizes), {}) if isinstance(t, str) else t
        for k, t in enumerate(operands)
    ]
    params = [a for a in args if isinstance(a, relax.Var)]
    return unlegalised(op, args, attrs, v.literal, params=params)


def random_input(text: str, seed: int) -> Any:
    """Small numbers, so that neither types nor indices overflow."""
    dtype, _, rest = text.partition("[")
    shape = tuple(dimensions(rest[:-1], {}))
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return np.asarray(rng.integers(0, 3, shape)).astype(dtype)
    return np.asarray(rng.uniform(0.25, 2.0, shape)).astype(dtype)


def outputs(mod: Any, inputs: list[Any]) -> list[Any]:
    """Compiled: TVM's own numbers."""
    return run(mod, inputs)
