"""Formulas of one or two operands that are operators, or nearly."""

from __future__ import annotations

import random
from dataclasses import dataclass

FLOATS = ("float32", "float32", "float32", "float64", "float16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
TYPES = ("bool", *INTEGERS, "float16", "float32", "float64")


@dataclass(frozen=True)
class Operands:
    """Two loads of one type."""

    x: str
    y: str
    dtype: str


def source_type(rng: random.Random, family: str) -> str:
    """The type that a family's operands have."""
    if family == "integer widths":
        return rng.choice(INTEGERS)
    if family == "casts":
        return rng.choice(TYPES)
    return rng.choice(FLOATS)


def literal(dtype: str, value: object) -> str:
    """A literal of a type."""
    return f"T.{dtype}({value!r})"


def _filled(rng: random.Random, operands: Operands, forms: tuple[str, ...]) -> str:
    """A form with loads and literals: ``{x}``, ``{y}``, ``{0}`` to ``{2}``, ``{h}``, ``{m}``."""
    names = {"x": operands.x, "y": operands.y, "t": operands.dtype}
    if "float" in operands.dtype:
        names |= {
            "zero": literal(operands.dtype, rng.choice((0.0, 0.0, -0.0))),
            "one": literal(operands.dtype, rng.choice((1.0, 1.0, 1.0, -1.0, 2.0))),
            "half": literal(operands.dtype, rng.choice((0.5, 0.5, 2.0, 0.25))),
            "low": literal(operands.dtype, rng.choice((0.0, -1.0, 2.0, "-inf"))),
            "high": literal(operands.dtype, rng.choice((6.0, 1.0, -1.0, "inf"))),
        }
    return rng.choice(forms).format(**names)


def formula(rng: random.Random, operands: Operands) -> tuple[str, str]:
    """Arithmetic and functions; now and then one inside another."""
    forms = _FORMULAS if operands.dtype == "float32" else _PLAIN
    value = _filled(rng, operands, forms)
    if rng.random() < 0.25:
        value = _filled(rng, Operands(f"({value})", operands.y, operands.dtype), _PLAIN)
    return value, operands.dtype


_PLAIN = (
    "{x} + {y}", "{x} - {y}", "{y} - {x}", "{x} * {y}", "{x} / {y}", "{x} + {zero}", "{x} - {zero}",
    "{zero} - {x}", "{x} * {one}", "{x} * {zero}", "{one} / {x}", "{x} + {x}", "{x} - {x}",
    "{x} * {x}", "{x} * {half}", "{x} / {half}", "({x} + {y}) - {y}", "{x} + ({y} + {one})",
    "({x} + {y}) * {half}", "{x} * {y} + {x}", "{x} * (-{one})", "-{x}",
)  # fmt: skip
_FORMULAS = (
    *_PLAIN, "T.exp({x})", "T.log({x})", "T.sqrt({x})", "T.rsqrt({x})", "{one} / T.sqrt({x})",
    "T.tanh({x})", "T.sigmoid({x})", "{one} / ({one} + T.exp({zero} - {x}))", "T.erf({x})",
    "{x} * T.sigmoid({x})", "{x} / ({one} + T.exp(-{x}))", "T.exp(T.log({x}))", "T.floor({x})",
    "T.ceil({x})", "T.round({x})", "T.nearbyint({x})", "T.trunc({x})", "T.floor({x} + {half})",
    "{x} - T.floor({x})", "T.pow({x}, {y})", "T.pow({x}, {half})", "T.sqrt({x} * {x})",
    "T.exp({y} * T.log({x}))", "T.log({one} + T.exp({x}))", "T.fmod({x}, {y})",
    "{x} - T.floor({x} / {y}) * {y}", "T.sin({x})", "T.cos({x})", "T.sin({x}) / T.cos({x})",
    "T.exp({x}) - {one}", "{x} * {half} * ({one} + T.erf({x} * T.float32(0.70710678)))",
)  # fmt: skip


def selection(rng: random.Random, operands: Operands) -> tuple[str, str]:
    """Minima, clips, signs, comparisons."""
    if rng.random() < 0.35:
        return _filled(rng, operands, _TRUTHS), "bool"
    value = _filled(rng, operands, _SELECTIONS)
    if rng.random() < 0.2:
        value = _filled(rng, Operands(f"({value})", operands.y, operands.dtype), _SELECTIONS)
    return value, operands.dtype


_SELECTIONS = (
    "T.max({x}, {zero})", "T.max({zero}, {x})", "T.Select({x} > {zero}, {x}, {zero})",
    "T.Select({x} < {zero}, {zero}, {x})", "T.if_then_else({x} >= {zero}, {x}, {zero})",
    "T.Select({zero} < {x}, {x}, {x} * {half})", "T.max({x}, {x} * {half})",
    "T.min(T.max({x}, {low}), {high})", "T.max(T.min({x}, {high}), {low})",
    "T.max({low}, T.min({high}, {x}))", "T.Select({x} < {zero}, {zero} - {x}, {x})",
    "T.Select({x} >= {zero}, {x}, -{x})", "T.fabs({x})", "T.max({x}, -{x})",
    "T.Select({x} > {zero}, {one}, T.Select({x} < {zero}, -{one}, {zero}))",
    "T.Select({x} < {zero}, -{one}, T.Select({x} > {zero}, {one}, {zero}))",
    "T.min({x}, {y})", "T.max({x}, {y})", "T.min({y}, {x})", "T.Select({x} < {y}, {x}, {y})",
    "T.Select({x} > {y}, {y}, {x})", "T.Select({x} >= {y}, {x}, {y})",
    "T.Select({x} != {x}, {zero}, {x})", "T.Select({x} == {y}, {x}, {y})",
    "T.Select({y} > {zero}, {x}, {zero})", "T.if_then_else({y} == {zero}, {x}, {half})",
    "T.max({x}, {low})", "T.min({x}, {high})", "T.min(T.max({x}, {zero}), {high})",
    "T.max(T.max({x}, {y}), {low})", "T.min({high}, T.min({x}, {y}))",
)  # fmt: skip
_TRUTHS = (
    "{x} < {y}", "{x} <= {y}", "{x} > {y}", "{x} >= {y}", "{x} == {y}", "{x} != {y}",
    "T.Not({x} < {y})", "T.Not({x} >= {y})", "T.Not({x} == {y})", "{x} == {x}", "{x} != {x}",
    "T.isnan({x})", "T.Not(T.isnan({x}))", "{x} - {y} < {zero}", "T.fabs({x}) == {high}",
    "T.fabs({x}) < {high}", "T.And({x} < {y}, {y} > {x})", "T.Or({x} < {y}, {x} > {y})",
    "T.Or({x} < {y}, {x} == {y})", "T.Or({x} < {y}, {y} <= {x})",
    "T.And({x} <= {y}, {x} >= {y})", "{x} < {high}", "{zero} == {x}",
)  # fmt: skip


def integer(rng: random.Random, operands: Operands) -> tuple[str, str]:
    """Arithmetic of integers; the result may be widened or narrowed."""
    k = rng.choice((0, 1, 2, 3, 7, 8, 31, 100))
    k = min(k, 31) if rng.random() < 0.9 else k
    if operands.dtype in ("int8", "uint8"):
        k = min(k, 7) if rng.random() < 0.7 else k
    named = {
        "x": operands.x,
        "y": operands.y,
        "k": f"T.{operands.dtype}({k})",
        "one": f"T.{operands.dtype}(1)",
    }
    named |= {"z": f"T.{operands.dtype}(0)", "p": f"T.{operands.dtype}({max(k, 1)})"}
    if rng.random() < 0.2:
        return rng.choice(_ORDERS).format(**named), "bool"
    value = rng.choice(_ARITHMETIC).format(**named)
    if rng.random() < 0.25:
        value = rng.choice(_ARITHMETIC).format(**(named | {"x": f"({value})"}))
    if rng.random() < 0.3:
        target = rng.choice(INTEGERS)
        return f"T.Cast({target!r}, {value})", target
    return value, operands.dtype


_ARITHMETIC = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} + {k}", "{x} - {k}", "{k} - {x}", "{x} * {k}",
    "T.floordiv({x}, {p})", "T.floormod({x}, {p})", "T.truncdiv({x}, {p})", "T.truncmod({x}, {p})",
    "T.floordiv({x}, {y})", "T.floormod({x}, {y})", "T.truncdiv({x}, {y})", "T.truncmod({x}, {y})",
    "T.bitwise_and({x}, {y})", "T.bitwise_or({x}, {y})", "T.bitwise_xor({x}, {y})",
    "T.bitwise_and({x}, {k})", "T.bitwise_not({x})", "T.shift_left({x}, {k})",
    "T.shift_right({x}, {k})", "T.shift_left({x}, {y})", "T.shift_right({x}, {y})",
    "T.shift_right(T.shift_left({x}, {k}), {k})", "T.shift_left(T.shift_right({x}, {k}), {k})",
    "T.min({x}, {y})", "T.max({x}, {y})", "T.max({x}, {z})", "T.min(T.max({x}, {z}), {k})",
    "T.max(T.min({x}, {k}), {z})", "T.Select({x} < {z}, {z} - {x}, {x})", "{z} - {x}", "T.abs({x})",
    "T.Select({x} > {z}, {x}, {z})", "T.Select({x} < {y}, {x}, {y})", "({x} + {y}) - {y}",
    "{x} + {x}", "{x} * {x}", "{x} - {x}", "T.floordiv({x} * {p}, {p})", "({x} - {y}) + {k}",
    "T.floordiv({x} + {y}, T.{t}(2))".replace("T.{t}(2)", "({one} + {one})"),
    "T.max(T.max({x}, {y}), {k})", "T.min({k}, T.min({x}, {y}))", "T.max({x}, T.max({y}, -{x}))",
    "T.min(T.min({x}, {p}), T.min({y}, {z}))",
)  # fmt: skip
_ORDERS = (
    "{x} < {y}", "{x} - {y} < {z}", "{x} <= {y}", "{x} == {y}", "{x} != {y}", "T.Not({x} < {y})",
    "{x} >= {z}", "{x} < {k}", "{x} + {one} > {x}", "T.floormod({x}, ({one} + {one})) == {one}",
    "T.bitwise_and({x}, {one}) == {one}", "T.And(T.And({x} < {y}, {x} > {z}), {y} < {k})",
    "T.Or({x} < {z}, T.Or({x} == {y}, {y} > {k}))",
)  # fmt: skip


def conversion(rng: random.Random, operands: Operands) -> tuple[str, str]:
    """A chain of casts; the types between may be narrower."""
    value, dtype = operands.x, operands.dtype
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        if dtype != "bool" and rng.random() < 0.15:
            value = f"({value}) + T.{dtype}(1)"
        if "float" in dtype and dtype == "float32" and rng.random() < 0.2:
            value = f"T.{rng.choice(('floor', 'round', 'trunc', 'nearbyint'))}({value})"
        dtype = rng.choice(TYPES)
        value = f"T.Cast({dtype!r}, {value})"
    return value, dtype
