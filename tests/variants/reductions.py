"""Reductions, searches, cumulative ops, norms, softmax, losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import Variant, family, forms, options

SHAPES = ("T[n, 3, 5]", "T[n, 1, 4]", "T[7]", "T[n, m]", "T[2, 3, n, 4]", "T[1, 1]", "T[n, 1]")
SIZES: dict[str, Any] = {"n": 4, "m": 6}


def axes(rank: int) -> list[object]:
    found: list[object] = [None, *([k] for k in range(rank)), [-1]]
    if rank > 1:
        found += [[0, 1], [0, -1], list(range(rank))]
    if rank > 2:
        found += [[1, 2], [-1, -2]]
    return found


def rank(text: str) -> int:
    return text.count(",") + 1


@family
def reductions() -> Iterator[Variant]:
    for name in ("sum", "prod", "max", "min", "mean", "variance", "std"):
        types = ["float32", "float16"]
        types += ["int32", "int8", "int64"] if name in ("sum", "prod", "max", "min") else []
        types += ["bool"] if name in ("sum", "prod") else []
        types += ["uint8"] if name in ("max", "min") else []
        for shape in SHAPES:
            for o in options(axis=axes(rank(shape)), keepdims=(False, True)):
                keep = ("", "n", "nm")
                yield from forms(f"relax.{name}", (shape,), o, keep=keep, **SIZES)
                if shape in SHAPES[:1]:
                    yield from forms(f"relax.{name}", (shape,), o, dtypes=types[1:], **SIZES)


@family
def searches() -> Iterator[Variant]:
    for name in ("argmax", "argmin"):
        for shape in SHAPES:
            for o in options(axis=(None, *range(-1, rank(shape))), keepdims=(False, True)):
                yield from forms(
                    f"relax.{name}",
                    (shape,),
                    o,
                    keep=("", "n"),
                    dtypes=("float32", "float16", "int8", "int32"),
                    **SIZES,
                )
    for shape in SHAPES:
        for axis, keepdims in ((0, True), ([0], False), ([-1], True), (None, False)):
            attrs = {"axis": axis, "keepdims": keepdims}
            yield from forms("relax.median", (shape,), attrs, keep=("", "n"), **SIZES)


@family
def collapses() -> Iterator[Variant]:
    for shape, target in (
        ("T[n, 3, 4]", ("n", 3, 1)), ("T[n, 3, 4]", (3, 1)), ("T[n, 3, 4]", (3, 4)),
        ("T[n, 3, 4]", (1, 1)), ("T[n, 3, 4]", ("n", 1, 1)), ("T[n, 3, 4]", (4,)),
        ("T[n, 3, 4]", (1,)), ("T[n, 1, 4]", (1, 4)), ("T[n, m]", (1, "m")),
        ("T[n, m]", ("n", "m")), ("T[n, m]", (1, 1)),
    ):  # fmt: skip
        types = ("float32", "float16", "int32")
        attrs = {"shape": target}
        yield from forms(
            "relax.collapse_sum_to", (shape,), attrs, keep=("", "n", "nm"), dtypes=types, **SIZES
        )
        like = f"T[{', '.join(map(str, target))}]"
        yield from forms(
            "relax.collapse_sum_like", (shape, like), keep=("", "n", "nm"), dtypes=types, **SIZES
        )


@family
def norms() -> Iterator[Variant]:
    keep, types, nn = ("", "n", "nm"), ("float32", "float16"), "relax.nn."
    for eps in (1e-5, 1e-3, 0.0):
        for shape, over in (
            ("T[n, 6]", ([-1],)), ("T[n, m, 6]", ([-1], [2])), ("T[n, 5, 6]", ([-1], [1, 2], [1])),
            ("T[n, 5, 6, 4]", ([-2, -1], [1, 2, 3], [1], [3])), ("T[1, 1, 6]", ([2], [1, 2])),
            ("T[n, 1]", ([1],)),
        ):  # fmt: skip
            dims = shape[2:-1].split(", ")
            for over_axes in over:
                w = f"T[{', '.join(dims[a] for a in over_axes)}]"
                for o in options(center=(None, False), scale=(None, False)):
                    attrs = {"axes": over_axes, "epsilon": eps, **o}
                    yield from forms(
                        nn + "layer_norm", (shape, w, w), attrs, keep=keep, dtypes=types, **SIZES
                    )
                attrs = {"axes": over_axes, "epsilon": eps}
                yield from forms(
                    nn + "rms_norm", (shape, w), attrs, keep=keep, dtypes=types, **SIZES
                )
        for shape, axis in (
            ("T[n, 6, 4, 5]", 1), ("T[n, 4, 5, 6]", 3), ("T[n, 6]", 1), ("T[n, 6, m]", 1),
            ("T[n, 6, 4]", -2), ("T[n, 4, 6]", -1), ("T[6, n]", 0), ("T[n, 1, 4]", 1),
            ("T[n, 6, 1, 1]", 1), ("T[n, 2, 6, 3, 4]", 2),
        ):  # fmt: skip
            w = f"T[{shape[2:-1].split(', ')[axis]}]"
            for o in options(training=(False, True), momentum=(None, 0.3), center=(None, False)):
                attrs = {"axis": axis, "epsilon": eps, **o}
                yield from forms(
                    nn + "batch_norm", (shape, w, w, w, w), attrs, keep=keep, dtypes=types, **SIZES
                )


@family
def group_norms() -> Iterator[Variant]:
    keep, types, nn = ("", "n", "nm"), ("float32", "float16"), "relax.nn."
    for o in options(epsilon=(1e-5, 1e-2), center=(None, False), scale=(None, False)):
        for shape, channel, over in (
            ("T[n, 6, 4, 5]", 1, [2, 3]), ("T[n, 4, 5, 6]", 3, [1, 2]), ("T[n, 6, m]", 1, [2]),
            ("T[n, 6, 4]", -2, [-1]), ("T[n, 6, 4, 5]", 1, [3]), ("T[n, 6, 1, 4]", 1, [2, 3]),
        ):  # fmt: skip
            attrs = {"channel_axis": channel, "axes": over, **o}
            yield from forms(
                nn + "instance_norm",
                (shape, "T[6]", "T[6]"),
                attrs,
                keep=keep,
                dtypes=types,
                **SIZES,
            )
            for groups in (1, 2, 3, 6):
                yield from forms(
                    nn + "group_norm",
                    (shape, "T[6]", "T[6]"),
                    {"num_groups": groups, **attrs},
                    keep=keep,
                    dtypes=types,
                    **SIZES,
                )


@family
def softmaxes() -> Iterator[Variant]:
    for name in ("softmax", "log_softmax"):
        for shape in ("T[n, m]", "T[n, 3, 4]", "T[7]", "T[2, n, 4, 3]", "T[n, 1]", "T[1, n, 1]"):
            for axis in range(-1, rank(shape)):
                yield from forms(
                    f"relax.nn.{name}",
                    (shape,),
                    {"axis": axis},
                    keep=("", "n", "nm"),
                    dtypes=("float32", "float16", "float64"),
                    **SIZES,
                )


@family
def losses() -> Iterator[Variant]:
    types, nn = ("float32", "float16", "float64"), "relax.nn."
    for shape in ("T[n, 4]", "T[4]", "T[1, 4]", "T[3, 1]"):
        yield from forms(
            nn + "cross_entropy_with_logits", (shape, shape), keep=("", "n"), dtypes=types, **SIZES
        )
    for x, t in (
        ("T[n, 4]", "[n]"), ("T[4]", "[]"), ("T[n, 4, 5]", "[n, 5]"),
        ("T[n, 4, 5, 2]", "[n, 5, 2]"),
        ("T[1, 4]", "[1]"), ("T[n, 1]", "[n]"),
    ):  # fmt: skip
        c = x[2:-1].split(", ")[0 if rank(x) == 1 else 1]
        for o in options(reduction=("none", "sum", "mean"), ignore_index=(-100, 0, 2)):
            for w, kind in (((), "int64"), ((f"T[{c}]",), "int64"), ((f"T[{c}]",), "int32")):
                yield from forms(
                    nn + "nll_loss",
                    (x, kind + t, *w),
                    o,
                    keep=("", "n"),
                    dtypes=("float32",),
                    **SIZES,
                )


@family
def scans() -> Iterator[Variant]:
    for name in ("cumsum", "cumprod"):
        for shape in ("T[n, 5]", "T[7]", "T[2, n, 4]"):
            for o in options(axis=(None, 0, -1), exclusive=(False, True), dtype=(None, "float32")):
                yield from forms(
                    f"relax.{name}",
                    (shape,),
                    o,
                    keep=("", "n"),
                    dtypes=("float32", "int32"),
                    **SIZES,
                )
    for shape in ("T[n, 5]", "T[7]"):
        for o in options(axis=(0, -1), descending=(False, True)):
            yield from forms(
                "relax.sort", (shape,), o, keep=("", "n"), dtypes=("float32", "int32"), **SIZES
            )
            for dtype in ("int32", "int64"):
                yield from forms("relax.argsort", (shape,), {**o, "dtype": dtype}, **SIZES)
        for o in options(k=(1, 3), axis=(0, -1), ret_type=("both", "values", "indices"),
                         largest=(True, False)):  # fmt: skip
            yield from forms("relax.topk", (shape,), o, keep=("", "n"), **SIZES)
