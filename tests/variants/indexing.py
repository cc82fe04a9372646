"""Ops whose places are data, and tensors made of their coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import Variant, family, forms, options

SIZES: dict[str, Any] = {"n": 4, "m": 6}
KEEP = ("", "n", "nm")
FEW = ("float32", "float16", "int8")


@family
def takes() -> Iterator[Variant]:
    for x, t, axes in (
        ("T[10, n]", "[3]", (0, 1, -1)), ("T[10, n]", "[3, 2]", (0, 1)), ("T[10, n]", "[]", (0, 1)),
        ("T[2, 10, n]", "[m]", (0, 1, 2)), ("T[10]", "[3]", (0, None)), ("T[10, n]", "[1]", (0,)),
        ("T[1, n]", "[3]", (0, 1)),
    ):  # fmt: skip
        for axis in axes:
            for mode in ("fast", "clip", "wrap", "nan"):
                for kind in ("int64", "int32"):
                    yield from forms(
                        "relax.take",
                        (x, kind + t),
                        {"axis": axis, "mode": mode},
                        keep=KEEP if mode == "fast" else ("", "n"),
                        dtypes=FEW if kind == "int64" else FEW[:1],
                        **SIZES,
                    )


@family
def gathers() -> Iterator[Variant]:
    for x, t, axes in (
        ("T[10, n]", "[10, n]", (0, 1, -1)), ("T[10, 5]", "[3, 5]", (0,)), ("T[10]", "[7]", (0,)),
        ("T[2, 3, n]", "[2, 3, 2]", (2,)), ("T[1, n]", "[1, 3]", (1,)),
    ):  # fmt: skip
        for axis in axes:
            for kind in ("int64", "int32"):
                yield from forms(
                    "relax.gather_elements",
                    (x, kind + t),
                    {"axis": axis},
                    keep=("", "n"),
                    dtypes=FEW,
                    **SIZES,
                )
    for x, t, batch in (
        ("T[10, n]", "[7, 2]", 0), ("T[10, n]", "[7, 1]", 0), ("T[4, 9, n]", "[4, 7, 1]", 1),
        ("T[4, 9, 5]", "[4, 7, 2]", 1), ("T[4, 9, 5]", "[3]", 0), ("T[4, 9, 5]", "[2, 3, 2]", 0),
        ("T[n, m]", "[3, 2]", 0),
    ):  # fmt: skip
        for kind in ("int64", "int32"):
            yield from forms(
                "relax.gather_nd",
                (x, kind + t),
                {"batch_dims": batch},
                keep=KEEP,
                dtypes=FEW,
                **SIZES,
            )
    for x, *ts in (
        ("T[10, n]", "[3]"), ("T[10, n]", "[3]", "[3]"), ("T[10, 9, n]", "[2, 1]", "[1, 3]"),
        ("T[10, 9, n]", "[3]", "[2, 3]"), ("T[10, n]", "[2, 2]"),
        ("T[5, 6, 7]", "[3]", "[3]", "[3]"),
        ("T[10, n]", "[m]", "[m]"),
    ):  # fmt: skip
        for kind in ("int64", "int32"):
            yield from forms(
                "relax.index_tensor", (x, *(kind + t for t in ts)), keep=KEEP, dtypes=FEW, **SIZES
            )


@family
def scatters() -> Iterator[Variant]:
    how = ("update", "add", "mul", "min", "max")
    for x, t, axes in (("T[6, n]", "[2, n]", (0,)), ("T[6, 5]", "[6, 2]", (1, -1)),
                       ("T[7]", "[3]", (0,)), ("T[2, 3, 4]", "[2, 2, 4]", (1,))):  # fmt: skip
        for o in options(axis=axes, reduction=(*how, "mean")):
            yield from forms(
                "relax.scatter_elements",
                (x, "int64" + t, "T" + t),
                o,
                keep=("", "n"),
                dtypes=("float32", "int32"),
                **SIZES,
            )
    for x, t, u in (("T[6, n]", "[2, 1]", "T[2, n]"), ("T[6, 5]", "[3, 2]", "T[3]"),
                    ("T[7]", "[3, 1]", "T[3]")):  # fmt: skip
        for reduction in how:
            yield from forms(
                "relax.scatter_nd",
                (x, "int64" + t, u),
                {"reduction": reduction},
                keep=("", "n"),
                dtypes=("float32", "int32"),
                **SIZES,
            )
    for right in (False, True):
        for small in (False, True):
            yield from forms(
                "relax.bucketize",
                ("T[n, 3]", "T[5]"),
                {"right": right, "out_int32": small},
                keep=("", "n"),
                dtypes=("float32", "int32"),
                **SIZES,
            )


@family
def hot() -> Iterator[Variant]:
    for shape in ("[n]", "[n, 3]", "[]", "[1, n]"):
        for kind in ("int64", "int32"):
            for on, off in ((1.0, 0.0), (1, 0), (2.5, -1.0), (True, False)):
                for axis in range(-1, shape.count(",") + (shape != "[]") + 1):
                    attrs = {"on_value": on, "off_value": off, "depth": 5, "axis": axis}
                    yield from forms(
                        "relax.one_hot", (kind + shape,), attrs, keep=("", "n"), **SIZES
                    )


@family
def triangles() -> Iterator[Variant]:
    for op in ("relax.tril", "relax.triu"):
        for shape in ("T[n, m]", "T[4, 4]", "T[2, n, 4]", "T[1, 5]", "T[5, 1]"):
            for k in (0, 1, -1, 3, -2):
                yield from forms(
                    op, (shape,), {"k": k}, keep=KEEP, dtypes=(*FEW, "int64", "bool"), **SIZES
                )


@family
def filled() -> Iterator[Variant]:
    types = ("float32", "float16", "int8", "int64", "bool", "uint8")
    for shape in ((3, 4), ("n", 4), ("n", "m"), (5,), (1, 1), ()):
        for dtype in types:
            for value in (0, 1) if dtype == "bool" else (0, 1, 3):
                attrs = {"shape": shape, "fill_value": value, "dtype": dtype}
                yield from forms("relax.full", (), attrs, keep=KEEP, **SIZES)
            for op in ("relax.zeros", "relax.ones"):
                attrs = {"shape": shape, "dtype": dtype}
                yield from forms(op, (), attrs, keep=KEEP, **SIZES)
    for x in ("T[n, 4]", "T[5]", "T[n, m]"):
        for kind in (None, "float32", "int32"):
            for op in ("relax.zeros_like", "relax.ones_like"):
                yield from forms(op, (x,), {"dtype": kind}, keep=KEEP, dtypes=types, **SIZES)
            yield from forms(
                "relax.full_like",
                (x,),
                {"fill_value": 2, "dtype": kind},
                keep=KEEP,
                dtypes=types[:4],
                **SIZES,
            )
    for x in ("T[n, 4]", "T[3, 3]", "T[n, m]"):
        for k in (0, 1, -1):
            yield from forms("relax.eye_like", (x,), {"k": k}, keep=KEEP, dtypes=types[:4], **SIZES)


@family
def ranges() -> Iterator[Variant]:
    for start, end, step in (
        (0, "n", 1), (0, "n", 2), (3, "n", 1), (1, "n", 3), ("n", 0, -1), (0, 10, 1), (0, 10, 3),
        ("n", 20, 2), ("n", "m", 1), (5, 0, -2),
    ):  # fmt: skip
        for dtype in ("int64", "int32", "float32"):
            attrs: dict[str, Any] = {"start": start, "end": end, "step": step, "dtype": dtype}
            yield from forms("relax.arange", (), attrs, keep=KEEP, n=6, m=11)
    for n, m in ((3, 4), (4, 4), ("n", 4), ("n", "m"), (1, 5), (4, None)):
        for k in (0, 1, -1, 4):
            for dtype in ("float32", "int32", "float16", "bool"):
                attrs = {"n": n, "m": m, "k": k, "dtype": dtype}
                yield from forms("relax.eye", (), attrs, keep=KEEP, **SIZES)
    for size in (8, 9):
        for periodic in (False, True):
            for alpha, beta in ((0.54, 0.46), (0.5, 0.5)):
                attrs = {"window_size": size, "periodic": periodic, "alpha": alpha, "beta": beta}
                yield from forms("relax.hamming_window", (), {**attrs, "dtype": "float32"})
