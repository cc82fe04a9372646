"""Convolutions, transposed ones, and pools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import Variant, family, forms, options, thin

SPACE = {1: "W", 2: "HW", 3: "DHW"}
SIZES: dict[str, Any] = {"n": 2, "d": 6, "h": 9, "w": 8}
KERNELS = {1: ((3,), (1,), (8,)), 2: ((3, 3), (1, 1), (3, 2), (9, 8)), 3: ((3, 2, 2), (1, 1, 1))}
STRIDES = {1: ((1,), (2,), (4,)), 2: ((1, 1), (2, 2), (3, 1)), 3: ((1, 1, 1), (2, 1, 3))}
PADS = {
    1: ((0, 0), (1, 1), (2, 0)),
    2: ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0), (1, 0, 0, 1)),
    3: ((0,) * 6, (1,) * 6, (1, 0, 1, 0, 2, 0)),
}
DILATIONS = {1: ((1,), (2,)), 2: ((1, 1), (2, 1), (2, 2)), 3: ((1, 1, 1), (1, 2, 1))}
SYMBOLIC = ("", "n", "nhw")


def text(layout: str, sizes: Mapping[str, Any]) -> str:
    return "T[" + ", ".join(str(sizes[letter]) for letter in layout) + "]"


def layouts(d: int) -> list[tuple[str, str]]:
    """Layouts of data and kernel."""
    s = SPACE[d]
    return [(x, k) for x in (f"NC{s}", f"N{s}C") for k in (f"OI{s}", f"{s}IO", f"O{s}I", f"{s}OI")]


def space(d: int) -> dict[str, str]:
    return {letter: letter.lower() for letter in SPACE[d]}


@family
def convolutions() -> Iterator[Variant]:
    for d, count in ((1, 160), (2, 420), (3, 120)):
        every = options(
            kernel=KERNELS[d], strides=STRIDES[d], padding=PADS[d], dilation=DILATIONS[d],
            groups=(1, 2, 4), layout=layouts(d),
        )  # fmt: skip
        found = [v for o in every for v in _conv(d, o, "float32", SYMBOLIC)]
        yield from thin(found, count)
        for dtype, out in (("float16", None), ("float16", "float32"), ("int8", "int32")):
            every = options(kernel=KERNELS[d][:2], strides=STRIDES[d], padding=PADS[d],
                            groups=(1, 4), layout=layouts(d), out_dtype=(out,))  # fmt: skip
            found = [v for o in every for v in _conv(d, o, dtype, ("", "n"))]
            yield from thin(found, 24)


def _conv(d: int, o: Mapping[str, Any], dtype: str, keep: tuple[str, ...]) -> Iterator[Variant]:
    data, kernel = o["layout"]
    groups, taps = o["groups"], dict(zip(SPACE[d], o["kernel"], strict=True))
    x = text(data, {"N": "n", "C": 4, **space(d)})
    w = text(kernel, {"O": 8 if groups == 4 else 6, "I": 4 // groups, **taps})
    attrs = {k: v for k, v in o.items() if k not in ("kernel", "layout")}
    attrs |= {"data_layout": data, "kernel_layout": kernel}
    yield from forms(f"relax.nn.conv{d}d", (x, w), attrs, keep=keep, dtypes=(dtype,), **SIZES)


@family
def transposed() -> Iterator[Variant]:
    for d, count in ((1, 100), (2, 200), (3, 60)):
        extra: tuple[tuple[int, ...], ...] = ((0,) * d, (1,) * d, (1,) + (0,) * (d - 1))
        every = options(kernel=KERNELS[d][:3], strides=STRIDES[d], padding=PADS[d],
                        output_padding=extra, dilation=DILATIONS[d], groups=(1, 2))  # fmt: skip
        found = [v for o in every for v in _transposed(d, o)]
        yield from thin(found, count)


def _transposed(d: int, o: Mapping[str, Any]) -> Iterator[Variant]:
    pairs = zip(o["strides"], o["output_padding"], strict=True)
    if any(p >= s and p for s, p in pairs):
        return
    s = SPACE[d]
    taps = dict(zip(s, o["kernel"], strict=True))
    x, w = text(f"NC{s}", {"N": "n", "C": 4, **space(d)}), text(f"IO{s}", {"I": 4, "O": 3, **taps})
    attrs = {k: v for k, v in o.items() if k != "kernel"}
    for dtype in ("float32", "float16") if d < 3 else ("float32",):
        yield from forms(
            f"relax.nn.conv{d}d_transpose",
            (x, w),
            attrs,
            keep=("", "n", "nhw"),
            dtypes=(dtype,),
            **SIZES,
        )


@family
def pools() -> Iterator[Variant]:
    for kind in ("max", "avg"):
        for d, count in ((1, 120), (2, 260), (3, 80)):
            every = options(
                pool_size=KERNELS[d][:3], strides=STRIDES[d], padding=PADS[d],
                dilation=DILATIONS[d], ceil_mode=(False, True),
                count_include_pad=(False, True) if kind == "avg" else (False,),
                layout=(f"NC{SPACE[d]}", f"N{SPACE[d]}C"),
            )  # fmt: skip
            found = [v for o in every for v in _pool(f"relax.nn.{kind}_pool{d}d", d, o)]
            yield from thin(found, count)


def _pool(op: str, d: int, o: Mapping[str, Any]) -> Iterator[Variant]:
    x = text(o["layout"], {"N": "n", "C": 3, **space(d)})
    yield from forms(op, (x,), o, keep=SYMBOLIC, dtypes=("float32", "float16"), **SIZES)
    types = ("int8", "uint8") if "max" in op else ("int32",)
    yield from forms(op, (x,), o, dtypes=types, **SIZES)


@family
def adaptive() -> Iterator[Variant]:
    sizes: dict[int, tuple[Any, ...]] = {
        1: ((1,), (3,), (4,), (8,)),
        2: ((1, 1), (3, 4), (2, 3), (4, 5), (9, 8)),
        3: ((1, 1, 1), (2, 3, 4), (4, 2, 3)),
    }
    for d, given in sizes.items():
        for o in options(output_size=given, layout=(f"NC{SPACE[d]}", f"N{SPACE[d]}C")):
            x = text(o["layout"], {"N": "n", "C": 3, **space(d)})
            op = f"relax.nn.adaptive_avg_pool{d}d"
            yield from forms(op, (x,), o, keep=SYMBOLIC, dtypes=("float32", "float16"), **SIZES)
