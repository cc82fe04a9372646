"""Ops that move elements: shapes, joins, slices, padding, layouts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from . import Variant, family, forms, options, thin

SIZES: dict[str, Any] = {"n": 4, "m": 6}
KEEP = ("", "n", "nm")
FEW = ("float32", "float16", "int8")
ALL = (*FEW, "int64", "bool")


@family
def reshapes() -> Iterator[Variant]:
    for shape, targets in (
        ("T[n, 6]", (("n", 2, 3), ("n", 6, 1), (1, "n", 6), ("n", 3, 2), (6, "n"), ("n", 6))),
        ("T[n, m]", (("m", "n"), ("n", 1, "m"), ("n", "m", 1))),
        ("T[2, 3, 4]", ((6, 4), (24,), (2, 12), (4, 3, 2), (2, 2, 3, 2), (1, 24), (2, 3, 4))),
        ("T[1, n, 4]", (("n", 4), ("n", 1, 4), ("n", 2, 2))),
        ("T[1]", ((), (1, 1))), ("T[]", ((1,), (1, 1))),
        ("T[n, 8, 2]", (("n", 16), ("n", 4, 4), ("n", 2, 2, 4))),
        ("T[1, 1, 8, 8]", ((8, 8), (64,), (1, 64), (4, 16))),
    ):  # fmt: skip
        for target in targets:
            yield from forms(
                "relax.reshape", (shape,), {"shape": target}, keep=KEEP, dtypes=ALL, **SIZES
            )
    for shape in ("T[n, 6]", "T[2, 3, 4]", "T[n, m]", "T[5]", "T[]", "T[1, n]", "T[n, 1, 1, 3]"):
        for op in ("flatten", "nn.batch_flatten"):
            if op == "flatten" or shape.count(","):
                yield from forms(f"relax.{op}", (shape,), keep=KEEP, dtypes=FEW, **SIZES)
    for shape, axes in (
        ("T[n, 1, 4]", (None, [1], [-2])), ("T[1, n, 1]", (None, [0], [2], [0, 2])),
        ("T[1, 1]", (None, [0], [1])), ("T[n, 4]", (None, [])), ("T[1]", (None, [0])),
    ):  # fmt: skip
        for axis in axes:
            yield from forms(
                "relax.squeeze", (shape,), {"axis": axis}, keep=KEEP, dtypes=FEW, **SIZES
            )
    for shape, several in (("T[n, 4]", ([0], [1], [2], [-1], [0, 2], [0, 1, 4])), ("T[]", ([0],))):
        for given in several:
            yield from forms(
                "relax.expand_dims", (shape,), {"axis": given}, keep=KEEP, dtypes=FEW, **SIZES
            )


@family
def permutations_() -> Iterator[Variant]:
    for shape, rank in (("T[n, m]", 2), ("T[n, 3, m]", 3), ("T[n, 2, 3, m]", 4), ("T[4, 4]", 2),
                        ("T[1, n, 3]", 3), ("T[1, 1, n, 3]", 4), ("T[1, n, 1]", 3)):  # fmt: skip
        for axes in (None, *permutations(range(rank))):
            attrs = {"axes": None if axes is None else list(axes)}
            types = ALL if rank == 3 else ("float32", "int8")
            yield from forms(
                "relax.permute_dims", (shape,), attrs, keep=KEEP, dtypes=types, **SIZES
            )
    for order in ([-1, 0, 1], [0, -1, -2]):
        yield from forms("relax.permute_dims", ("T[n, 3, m]",), {"axes": order}, **SIZES)


@family
def repetitions() -> Iterator[Variant]:
    for shape, targets in (
        ("T[n, 1]", (("n", 5), (2, "n", 5), ("n", 1), (2, "n", 1))), ("T[1]", ((5,), (2, 3))),
        ("T[]", ((4,), (2, 3), ())), ("T[n, m]", ((3, "n", "m"), ("n", "m"))),
        ("T[1, m]", (("n", "m"),)), ("T[1, n, 1]", ((3, "n", 4),)),
    ):  # fmt: skip
        for target in targets:
            yield from forms(
                "relax.broadcast_to", (shape,), {"shape": target}, keep=KEEP, dtypes=ALL, **SIZES
            )
    for shape, several in (
        ("T[n, 3]", ([1, 2], [2, 1], [2, 3], [2, 1, 1], [2, 2, 2], [3], 2, [1, 1])),
        ("T[4]", ([3], [2, 2], 1)), ("T[1, n]", ([3, 1], [2, 2])), ("T[1]", ([4],)),
    ):  # fmt: skip
        for repeats in several:
            yield from forms(
                "relax.tile", (shape,), {"repeats": repeats}, keep=KEEP, dtypes=FEW, **SIZES
            )
    for shape in ("T[n, 3]", "T[4]", "T[1, n]", "T[2, n, 3]"):
        for o in options(repeats=(1, 2, 3), axis=(None, *range(-1, shape.count(",") + 1))):
            yield from forms("relax.repeat", (shape,), o, keep=KEEP, dtypes=FEW, **SIZES)
    for shape in ("T[n, 3]", "T[5]", "T[2, n, 4]", "T[1, n]"):
        for axis in range(-1, shape.count(",") + 1):
            yield from forms("relax.flip", (shape,), {"axis": axis}, keep=KEEP, dtypes=ALL, **SIZES)


@family
def joins() -> Iterator[Variant]:
    for operands, axis in (
        (("T[n, 3]", "T[n, 5]"), 1), (("T[n, 3]", "T[n, 3]"), -1), (("T[2, n]", "T[3, n]"), 0),
        (("T[n, 3]", "T[m, 3]"), 0), (("T[n, 2, 3]",) * 3, 1), (("T[1]",) * 4, 0),
        (("T[n, 1, 3]", "T[n, 2, 3]", "T[n, 1, 3]"), 1), (("T[5]", "T[3]", "T[1]"), 0),
        (("T[n, 3]",), 1), (("T[1, n]", "T[1, n]"), 0),
    ):  # fmt: skip
        yield from forms("relax.concat", operands, {"axis": axis}, keep=KEEP, dtypes=ALL, **SIZES)
    for operands in (("T[n, 3]",) * 2, ("T[n, 3]",) * 3, ("T[5]",) * 2, ("T[]",) * 2,
                     ("T[n, 1, m]",) * 2, ("T[1, n]",) * 3, ("T[n]",)):  # fmt: skip
        for axis in range(-1, operands[0].count(",") + (operands[0] != "T[]") + 1):
            yield from forms(
                "relax.stack", operands, {"axis": axis}, keep=KEEP, dtypes=FEW, **SIZES
            )
    for shape, axis, several in (
        ("T[n, 12]", 1, (2, 3, [4], [3, 5], [1, 2, 3], 12)), ("T[12, n]", 0, (2, [5])),
        ("T[n, 12]", -1, (4, [5])), ("T[n, 4]", 0, ([1, 3], 2)), ("T[10]", 0, (3, 5, [3, 3])),
        ("T[1, 4, n]", 1, (2, 4)), ("T[n, 7]", 1, (2, 3)),
    ):  # fmt: skip
        for given in several:
            attrs = {"indices_or_sections": given, "axis": axis}
            yield from forms("relax.split", (shape,), attrs, keep=KEEP, dtypes=FEW, **SIZES)
    for operands in (("T[3]", "T[4]"), ("T[3]",) * 3, ("T[n]", "T[m]"), ("T[1]", "T[4]")):
        for indexing in ("ij", "xy"):
            yield from forms(
                "relax.meshgrid", operands, {"indexing": indexing}, keep=KEEP, dtypes=FEW, **SIZES
            )


@family
def slices() -> Iterator[Variant]:
    for shape, axis in (("T[10, n]", 0), ("T[n, 10]", 1), ("T[n, 10]", -1), ("T[10]", 0),
                        ("T[2, 10, 3]", 1)):  # fmt: skip
        for begin, end, stride in (
            (0, 5, 1), (2, 10, 1), (1, 9, 2), (1, 9, 3), (0, 10, 1), (3, 4, 1), (-4, -1, 1),
            (-3, 2**63 - 1, 1), (9, 0, -1), (8, 1, -3), (-1, -11, -1), (0, 100, 4), (0, 10, 9),
            (0, 10, 2), (4, 5, 3),
        ):  # fmt: skip
            for inbound in (False, True):
                if inbound and (begin < 0 or end > 10 or end < 0):
                    continue
                attrs: dict[str, Any] = {
                    "axes": [axis],
                    "begin": [begin],
                    "end": [end],
                    "strides": [stride],
                    "assume_inbound": inbound,
                }
                yield from forms("relax.strided_slice", (shape,), attrs, keep=("", "n"), **SIZES)


@family
def symbolic_slices() -> Iterator[Variant]:
    ranges: tuple[tuple[Any, Any, int], ...] = (
        (1, 4, 1), (0, 2, 1), (1, 4, 2), (-2, 2**63 - 1, 1), (0, -1, 1), (0, "n", 2), (1, "n", 1),
    )  # fmt: skip
    for begin, end, stride in ranges:
        attrs: dict[str, Any] = {"axes": [0], "begin": [begin], "end": [end], "strides": [stride]}
        for inbound in (False, True):
            yield from forms(
                "relax.strided_slice",
                ("T[n, 3]",),
                {**attrs, "assume_inbound": inbound},
                keep=("", "n"),
                dtypes=FEW,
                **SIZES,
            )


@family
def several_slices() -> Iterator[Variant]:
    for axes, begin, end, stride in (
        ([0, 1], [1, 2], [5, 9], [1, 2]), ([1, 0], [2, 1], [9, 5], [3, 1]),
        ([0, 1, 2], [0, 1, 1], [6, 9, 2], [2, 2, 1]), ([0, 2], [1, 0], [2, 2], [1, 1]),
    ):  # fmt: skip
        attrs = {"axes": axes, "begin": begin, "end": end, "strides": stride}
        yield from forms("relax.strided_slice", ("T[6, 10, 3]",), attrs, dtypes=ALL)


@family
def replacements() -> Iterator[Variant]:
    for shape, source, o in (
        ("T[10, n]", "T[3, n]", (1, 6, 2, 0)), ("T[n, 10]", "T[n, 4]", (2, 6, 1, 1)),
        ("T[n, 10]", "T[n, 4]", (2, 6, 1, -1)), ("T[10]", "T[10]", (0, 10, 1, 0)),
        ("T[10]", "T[4]", (0, 10, 3, 0)), ("T[10]", "T[1]", (4, 5, 1, 0)),
        ("T[10, n]", "T[9, n]", (1, 10, 1, 0)),
    ):  # fmt: skip
        names = ("start", "end", "step", "axis")
        yield from forms(
            "relax.slice_scatter",
            (shape, source),
            dict(zip(names, o, strict=True)),
            keep=("", "n"),
            dtypes=FEW,
            **SIZES,
        )


@family
def reversals() -> Iterator[Variant]:
    for o in options(seq_axis=(0, 1), batch_axis=(0, 1)):
        if o["seq_axis"] != o["batch_axis"]:
            for extra in ("", ", 3"):
                length = "n" if o["batch_axis"] == 0 else "m"
                yield from forms(
                    "relax.reverse_sequence",
                    (f"T[n, m{extra}]", f"int64[{length}]"),
                    o,
                    keep=KEEP,
                    dtypes=FEW,
                    **SIZES,
                )


@family
def pads() -> Iterator[Variant]:
    for shape, several in (
        ("T[n, 5]", ([0, 0, 1, 2], [1, 0, 0, 0], [1, 2, 2, 1], [0, 0, 0, 3], [0, 0, 0, 0])),
        ("T[n, 3, 5, 6]", ([0, 0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 0, 0, 0, 0, 3])),
        ("T[7]", ([2, 3], [0, 1])), ("T[1, n]", ([1, 1, 0, 0], [0, 2, 0, 0])),
        ("T[n, m]", ([1, 1, 2, 0],)),
    ):  # fmt: skip
        for widths in several:
            for mode in ("constant", "reflect", "replicate", "circular"):
                for value in (0.0, 1.5, -3.0) if mode == "constant" else (0.0,):
                    attrs = {"pad_width": widths, "pad_mode": mode, "pad_value": value}
                    types = FEW if value != 1.5 else FEW[:2]
                    yield from forms(
                        "relax.nn.pad", (shape,), attrs, keep=KEEP, dtypes=types, **SIZES
                    )


def _nhwc(n: Any, c: Any, h: Any, w: Any) -> Any:
    return n, h, w, c


def _nchw4c(n: Any, c: Any, h: Any, w: Any) -> Any:
    return n, c // 4, h, w, c % 4


def _packed_twice(o: Any, i: Any, h: Any, w: Any) -> Any:
    return o // 8, i // 4, h, w, i % 4, o % 8


def _merged(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a, b * 6 + c, d


def _reversed(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a, 7 - b, c, d


def _rotated(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a, (b + 3) % 8, c, d


def _same(a: Any, b: Any, c: Any, d: Any) -> Any:
    return a, b, c, d


@family
def layout_transforms() -> Iterator[Variant]:
    for m in (_nhwc, _nchw4c, _packed_twice, _merged, _reversed, _rotated, _same):
        for shape in ("T[8, 8, 6, 5]", "T[16, 8, 6, 2]"):
            yield from forms("relax.layout_transform", (shape,), {"index_map": m}, dtypes=ALL)
    for shape in ("T[2, 7, 5, 5]", "T[1, 6, 3, 1]"):
        for value in (0.0, 2.0):
            attrs = {"index_map": _nchw4c, "pad_value": value}
            yield from forms("relax.layout_transform", (shape,), attrs, dtypes=FEW[:2])
    for shape in ("T[n, 8, h, w]", "T[n, 8, 5, 5]"):
        for m in (_nhwc, _nchw4c):
            yield from forms("relax.layout_transform", (shape,), {"index_map": m},
                             keep=("n", "nhw"), n=2, h=5, w=6)  # fmt: skip


@family
def shuffles() -> Iterator[Variant]:
    for shape, factor in (("T[n, 8, 3, 4]", 2), ("T[n, 9, 2, 2]", 3), ("T[8, 3, 4]", 2)):
        yield from thin(forms("relax.nn.pixel_shuffle", (shape,), {"upscale_factor": factor},
                              keep=("", "n"), dtypes=FEW, **SIZES), 6)  # fmt: skip
