"""Read the scaling of rotary embeddings off a PrimFunc, and take it out.

    Before: let a = p * ((1 - s) * f * c + s * f) in cast(cos(a) * x + sin(a) * y)      (llama3)
    After:  let a = p / theta^e in cast(cos(a) * x + sin(a) * y),  "llama3", (c, ..)

What is left is compared with TVM's kernel without a scaling. All rotations must have one scaling.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..composites.positions.rope_scaling import (
    LLAMA3,
    LONGROPE,
    SCALINGS,
    TIR,
    WIDE,
    YARN,
    RopeScaling,
)
from ..lifting.tir.node import NodeDict, items
from ..support.ir.call_ops import op_name

#: Factors that occur in no expression, to find the places of factors by.
_MARKS = (0.71093751, 0.62890627, 0.58593753)


def without_scaling(func: Any) -> tuple[Any, RopeScaling] | None:
    """Return a PrimFunc whose rotations are plain, and the scaling that they had.

    None if no rotation is scaled, or they differ.
    """
    known: list[RopeScaling | None] = []

    def visit(node: Any, mutator: Any) -> Any:
        lets, body = _nest(node)
        angle, _ = lets[-1]
        if not _turns(body, angle):
            return mutator.default_mutate(node)
        plain = _plain(lets, body)
        known.append(None if plain is None else plain[1])
        return node if plain is None else plain[0]

    body = tvm_ffi.structural_mutate(func.body, [(tirx.Let, visit)])
    scalings = set(known)
    if len(scalings) != 1 or (scaling := scalings.pop()) is None:
        return None
    return func.with_body(body), scaling


def _nest(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The variables and values of nested lets, from the outside, and the innermost body."""
    lets = []
    while isinstance(node, tirx.Let):
        lets.append((node.var, node.value))
        node = node.body
    return lets, node


def _turns(body: Any, angle: Any) -> bool:
    """Return whether an expression is computed from the cosine and the sine of a variable."""
    names: set[str] = set()

    def visit(node: Any) -> None:
        if op_name(node) in ("tirx.cos", "tirx.sin") and items(node.args)[0].same_as(angle):
            names.add(op_name(node))

    tvm_ffi.structural_walk(body, (tvm.ir.Call, visit))
    return len(names) == 2


def _plain(lets: list[tuple[Any, Any]], body: Any) -> tuple[Any, RopeScaling] | None:
    """Return a rotation without its scaling, and this; None if it has no known one."""
    angle, value = lets[-1]
    for var, inner in reversed(lets[:-1]):
        value = _replaced(value, var, inner)
    power = _power(value)
    if power is None or not isinstance(value, (tirx.Mul, tirx.Div)):
        return None
    if isinstance(value, tirx.Div):
        scaling = _magnitude(body, angle) if _same(value.b, power) else None
    else:
        scaling = _frequency(value.b, power)
    if scaling is None:
        return None
    if scaling.magnitude is not None:
        body = _unmultiplied(body, angle, scaling.magnitude)
    return tirx.Let(angle, tirx.Div(value.a, power), body), scaling


def _power(value: Any) -> Any | None:
    """The only power in an expression; None if there are none or several different ones."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if op_name(node) == "tirx.pow" and not any(_same(node, p) for p in found):
            found.append(node)

    tvm_ffi.structural_walk(value, (tvm.ir.Call, visit))
    return found[0] if len(found) == 1 else None


def _frequency(value: Any, power: Any) -> RopeScaling | None:
    """The scaling of which an expression is the factor of the position."""
    feature = _feature(power)
    for name in (LLAMA3, YARN):
        marks = _MARKS[: SCALINGS[name]]
        marked = RopeScaling(name, marks).frequency(power, feature, TIR)
        places, literals = _literals(marked), _literals(value)
        if len(places) != len(literals):
            continue
        scaling = RopeScaling(name, tuple(literals[places.index(m)] for m in marks))
        if _same(scaling.frequency(power, feature, TIR), value):
            return scaling
    return None


def _feature(power: Any) -> Any:
    """The feature of a power ``theta^(2 d % n / n)``, float32; what is not of this form."""
    share = items(power.args)[1]
    pair = getattr(share.a, "value", None) if isinstance(share, tirx.Div) else None
    product = pair.a if isinstance(pair, tirx.FloorMod) else None
    return tirx.Cast(WIDE, product.a) if isinstance(product, tirx.Mul) else share


def _magnitude(body: Any, angle: Any) -> RopeScaling | None:
    """The scaling by a factor of cosine and sine; both must have the same."""
    factors = []

    def visit(node: Any) -> None:
        if _is_wave(node.a, angle) and isinstance(node.b, tirx.FloatImm):
            factors.append((op_name(node.a), float(node.b.value)))

    tvm_ffi.structural_walk(body, (tirx.Mul, visit))
    values = {value for _, value in factors}
    if sorted(name for name, _ in factors) != ["tirx.cos", "tirx.sin"] or len(values) != 1:
        return None
    return RopeScaling(LONGROPE, (values.pop(),))


def _unmultiplied(body: Any, angle: Any, factor: float) -> Any:
    def visit(node: Any, mutator: Any) -> Any:
        is_factor = isinstance(node.b, tirx.FloatImm) and float(node.b.value) == factor
        return node.a if is_factor and _is_wave(node.a, angle) else mutator.default_mutate(node)

    return tvm_ffi.structural_mutate(body, [(tirx.Mul, visit)])


def _is_wave(node: Any, angle: Any) -> bool:
    return op_name(node) in ("tirx.cos", "tirx.sin") and items(node.args)[0].same_as(angle)


def _literals(value: Any) -> list[float]:
    """The numbers in an expression, in order."""
    found: list[float] = []
    tvm_ffi.structural_walk(value, (tirx.FloatImm, lambda node: found.append(float(node.value))))
    return found


def _replaced(value: Any, var: Any, inner: Any) -> Any:
    values: NodeDict[Any] = NodeDict()
    values[var] = inner
    return tvm_ffi.structural_mutate(
        value, [(tvm.ir.Var, lambda node, _: node if values.get(node) is None else inner)]
    )


def _same(a: Any, b: Any) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))
