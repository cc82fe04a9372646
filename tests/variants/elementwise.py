"""Unary, binary and ternary ops, activations, conversions; literals on both sides, broadcasting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import FLOATS, NUMBERS, Variant, family, forms, options

SIZES: dict[str, Any] = {"n": 3, "m": 4}
SHAPES = ("T[n, m]", "T[n, 1, 4]", "T[]", "T[5]")
KEEP = ("", "n", "nm")
FLOAT_ONLY = (
    "acos acosh asin asinh atan atanh cos cosh exp log rsqrt sigmoid sin sinh sqrt tan tanh erf "
    "isnan isinf isfinite nn.silu nn.gelu nn.gelu_tanh nn.selu nn.softplus nn.leakyrelu"
).split()
ANY = "abs sign negative square floor ceil round trunc nn.relu".split()
INTS = ("int32", "int8", "uint8", "int64", "bool")


@family
def unary() -> Iterator[Variant]:
    for names, types in ((FLOAT_ONLY, FLOATS), (ANY, NUMBERS), (["bitwise_not"], INTS),
                         (["logical_not"], ("bool",)), (["square", "abs"], ("bool",))):  # fmt: skip
        for name in names:
            for shape in SHAPES:
                yield from forms(f"relax.{name}", (shape,), keep=KEEP, dtypes=types, **SIZES)


@family
def activations() -> Iterator[Variant]:
    for shape in SHAPES:
        for alpha in (0.01, 0.2, 1.0, 0.0):
            yield from forms(
                "relax.nn.leakyrelu", (shape,), {"alpha": alpha}, keep=KEEP, dtypes=FLOATS, **SIZES
            )
        for o in options(beta=(1.0, 2.0, 0.5), threshold=(20.0, 10.0)):
            yield from forms("relax.nn.softplus", (shape,), o, keep=KEEP, dtypes=FLOATS, **SIZES)
        for rate in (0.5, 0.1):
            yield from forms(
                "relax.nn.dropout", (shape,), {"rate": rate}, keep=KEEP, dtypes=FLOATS, **SIZES
            )
        for low, high in ((0, 6), (-1, 1), (0.5, 2.5), (-100, 100)):
            types = FLOATS if isinstance(low, float) else NUMBERS[:-1]
            yield from forms(
                "relax.clip", (shape,), {"min": low, "max": high}, keep=KEEP, dtypes=types, **SIZES
            )
    for shape, axis in (("T[n, 6, m]", 1), ("T[n, 6]", 1), ("T[n, m, 6]", 2), ("T[n, m, 6]", -1)):
        yield from forms(
            "relax.nn.prelu",
            (shape, "T[6]"),
            {"axis": axis},
            keep=KEEP,
            dtypes=("float32", "float16"),
            **SIZES,
        )


@family
def conversions() -> Iterator[Variant]:
    types = (*FLOATS, "bfloat16", "int8", "uint8", "int32", "int64", "bool")
    for source in types:
        for target in types:
            yield from forms(
                "relax.astype", (f"{source}[n, 4]",), {"dtype": target}, keep=("", "n"), **SIZES
            )


PAIRS = (
    ("T[n, m]", "T[n, m]"), ("T[n, m]", "T[m]"), ("T[n, 1]", "T[1, m]"), ("T[n, m]", "T[]"),
    ("T[1]", "T[n, m]"), ("T[2, 1, m]", "T[n, 1]"), ("T[5]", "T[5]"), ("T[]", "T[]"),
    ("T[1, 4]", "T[1, 4]"), ("T[n, 1, 4]", "T[n, 3, 1]"),
)  # fmt: skip
ARITHMETIC = "add subtract multiply divide floor_divide floor_mod mod maximum minimum".split()
COMPARE = "equal not_equal less less_equal greater greater_equal".split()
TYPES = {
    **dict.fromkeys(ARITHMETIC, NUMBERS),
    **dict.fromkeys(COMPARE, (*NUMBERS, "bool")),
    **dict.fromkeys(("power", "atan2", "log_add_exp"), FLOATS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), INTS),
    **dict.fromkeys(("left_shift", "right_shift"), INTS[:4]),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ("bool",)),
}
SPECIAL = {"left_shift": (0, 1, 2), "right_shift": (0, 1, 2), "power": (0.5, 2.0, 3.0, -1.0)}


@family
def binary() -> Iterator[Variant]:
    for name, types in TYPES.items():
        for pair in PAIRS:
            several = types if pair in PAIRS[:2] else types[:1]
            yield from forms(f"relax.{name}", pair, keep=KEEP, dtypes=several, **SIZES)


@family
def with_literals() -> Iterator[Variant]:
    for name, types in TYPES.items():
        for dtype in types:
            usual = (0.5, -2.0, 1.0, 0.0, 3.0) if "float" in dtype else (3, 1, 0, 7, -2)
            values = (True, False) if dtype == "bool" else SPECIAL.get(name, usual)
            for value in values:
                if (dtype == "uint8" and value < 0) or (dtype == "int8" and name == "power"):
                    continue
                zero = not value and name in ("divide", "floor_divide", "floor_mod", "mod")
                for side in ("x2",) if zero else ("x1", "x2"):
                    if zero:
                        continue
                    yield from forms(
                        f"relax.{name}",
                        ("T[n, 4]",),
                        {side: value},
                        keep=("", "n"),
                        dtypes=(dtype,),
                        **SIZES,
                    )


@family
def where() -> Iterator[Variant]:
    for condition, x, y in (
        ("bool[n, m]", "T[n, m]", "T[n, m]"), ("bool[n, 1]", "T[n, m]", "T[1, m]"),
        ("bool[]", "T[n, m]", "T[m]"), ("bool[m]", "T[]", "T[n, m]"), ("bool[5]", "T[5]", "T[]"),
    ):  # fmt: skip
        yield from forms(
            "relax.where", (condition, x, y), keep=KEEP, dtypes=(*NUMBERS[:-1], "bool"), **SIZES
        )


@family
def quantization() -> Iterator[Variant]:
    for shape, axis, c in (("T[n, 4]", 1, "4"), ("T[n, 4]", -1, "4"), ("T[n, 4, m]", 1, "4"),
                           ("T[4, m]", 0, "4"), ("T[n, 4]", -1, "")):  # fmt: skip
        for zero in ("int8", "int32"):
            for out in ("int8", "uint8", "int32"):
                yield from forms(
                    "relax.quantize",
                    (shape, f"float32[{c}]", f"{zero}[{c}]"),
                    {"axis": axis, "out_dtype": out},
                    keep=("", "n"),
                    **SIZES,
                )
            for out in ("float32", "float16"):
                operands = (shape.replace("T", "int8"), f"{out}[{c}]", f"{zero}[{c}]")
                yield from forms(
                    "relax.dequantize",
                    operands,
                    {"axis": axis, "out_dtype": out},
                    keep=("", "n"),
                    **SIZES,
                )
