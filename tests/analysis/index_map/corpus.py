"""More than 300 maps whose truth is known by how they were made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .oracle import Fn, where

Built = tuple[Fn, tuple[Any, ...]]
B, J, N = "bijective", "injective", "not_injective"


@dataclass(frozen=True)
class Case:
    """``build(*sizes)`` gives the function and the shape; ``sizes`` are symbolic extents."""

    name: str
    build: Callable[..., Built]
    truth: str
    sizes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def _fixed(name: str, fn: Fn, shape: tuple[int, ...], truth: str) -> Case:
    return Case(name, lambda: (fn, shape), truth)


def transposes() -> Iterator[Case]:
    for shape in ((4, 6), (2, 3, 5), (2, 3, 4, 5)):
        for p in itertools.permutations(range(len(shape))):
            yield _fixed(f"transpose-{p}", lambda *x, p=p: tuple(x[k] for k in p), shape, B)


def packing() -> Iterator[Case]:
    for c, b in itertools.product((8, 12, 16, 10, 3), (2, 4, 8)):
        yield _fixed(
            f"NCHW{b}c-{c}",
            lambda n, c, h, w, b=b: (n, c // b, h, w, c % b),
            (1, c, 3, 2),
            B if c % b == 0 or c < b else J,
        )
    for o, i in itertools.product((32, 16, 20), (8, 12, 6)):
        yield _fixed(
            f"OIHW4i16o-{o}x{i}",
            lambda o, i, h, w: (o // 16, i // 4, h, w, i % 4, o % 16),
            (o, i, 2, 1),
            B if o % 16 == 0 and i % 4 == 0 else J,
        )
    for k in (8, 16, 32):
        yield _fixed(f"pack-vnni-{k}", lambda k, n: (k // 4, n, k % 4), (k, 6), B)
        yield _fixed(
            f"two-level-{k}",
            lambda i, j: (i // 8, j // 8, i % 8 // 2, j % 8 // 4, i % 2, j % 4),
            (k, 24),
            B,
        )
        yield _fixed(
            f"two-level-fused-{k}",
            lambda i, j: (i // 8, j // 8, (i % 8) * 8 + j % 8),
            (k, 16),
            B,
        )
    for n in (9, 17, 30):
        yield _fixed(
            f"tile-not-divisible-{n}", lambda i, j: (i // 4, j // 8, i % 4, j % 8), (n, n), J
        )


def flattening() -> Iterator[Case]:
    for a, b, c in ((3, 4, 5), (2, 2, 7), (8, 1, 3), (5, 6, 1), (1, 1, 9)):
        yield _fixed(
            f"flatten-{a}{b}{c}", lambda i, j, k, b=b, c=c: ((i * b + j) * c + k,), (a, b, c), B
        )
        yield _fixed(
            f"unflatten-{a}{b}{c}",
            lambda i, b=b, c=c: (i // (b * c), i // c % b, i % c),
            (a * b * c,),
            B,
        )
        yield _fixed(
            f"flatten-column-major-{a}{b}{c}",
            lambda i, j, k, a=a, b=b: (i + a * (j + b * k),),
            (a, b, c),
            B,
        )
        yield _fixed(
            f"reshape-{a}{b}{c}",
            lambda i, j, k, b=b, c=c: (((i * b + j) * c + k) // 2, ((i * b + j) * c + k) % 2),
            (a, b, c),
            B if a * b * c % 2 == 0 else J,
        )


def blocks() -> Iterator[Case]:
    for r in (2, 3, 4):
        yield _fixed(
            f"space-to-depth-{r}",
            lambda c, h, w, r=r: (c * r * r + (h % r) * r + w % r, h // r, w // r),
            (2, 2 * r, 3 * r),
            B,
        )
        yield _fixed(
            f"depth-to-space-DCR-{r}",
            lambda c, h, w, r=r: (c % 2, h * r + c // (2 * r), w * r + c // 2 % r),
            (2 * r * r, 2, 3),
            B,
        )
        yield _fixed(
            f"depth-to-space-CRD-{r}",
            lambda c, h, w, r=r: (c // (r * r), h * r + c // r % r, w * r + c % r),
            (2 * r * r, 2, 3),
            B,
        )
        yield _fixed(
            f"space-to-depth-ragged-{r}",
            lambda h, w, r=r: ((h % r) * r + w % r, h // r, w // r),
            (2 * r + 1, 3 * r),
            J,
        )
        for g in (2, 3):
            yield _fixed(
                f"channel-shuffle-{g}-{r}",
                lambda c, w, g=g, r=r: (c % r * g + c // r, w),
                (g * r, 2),
                B,
            )


def swizzles() -> Iterator[Case]:
    for k in (2, 4, 8):
        yield _fixed(f"xor-row-{k}", lambda i, j, k=k: (i, j ^ i % k), (16, 8), B)
        yield _fixed(f"xor-odd-rows-{k}", lambda i, j, k=k: (i, j ^ i % k), (13, 8), B)
        yield _fixed(
            f"xor-vector-{k}",
            lambda i, j, k=k: (i, (j // 4 ^ i % k) * 4 + j % 4),
            (10, 32),
            B,
        )
        yield _fixed(
            f"xor-after-flatten-{k}",
            lambda i, j, k=k: ((i * 32 + j) ^ (i % k) * 4,),
            (8, 32),
            B,
        )
        yield _fixed(f"xor-literal-{k}", lambda i, k=k: (i ^ k,), (16,), B)
        yield _fixed(f"xor-outside-{k}", lambda i, k=k: (i ^ 16 * k,), (16,), J)
        yield _fixed(f"xor-self-{k}", lambda i, j, k=k: (i ^ i % k, j), (16, 3), N)
        yield _fixed(f"xor-both-{k}", lambda i, j, k=k: (i ^ j // k, j), (8, 8), B)
    yield _fixed("gray", lambda i: (i ^ i // 2,), (64,), B)
    yield _fixed("xor-sum", lambda i, j: (i ^ j,), (8, 8), N)
    for b in (2, 3, 4):
        yield _fixed(
            f"morton-{b}",
            lambda i, j, b=b: (
                sum(((i // 2**k) % 2) * 4**k * 2 + ((j // 2**k) % 2) * 4**k for k in range(b)),
            ),
            (2**b, 2**b),
            B,
        )
        yield _fixed(
            f"bit-reversal-{b}",
            lambda i, b=b: (sum(((i // 2**k) % 2) * 2 ** (b - 1 - k) for k in range(b)),),
            (2**b,),
            B,
        )


def rotations() -> Iterator[Case]:
    for n, k in itertools.product((7, 10, 16), (1, 3, -2, 12)):
        yield _fixed(f"rotate-{n}-{k}", lambda i, n=n, k=k: ((i + k) % n,), (n,), B)
    for n, a in itertools.product((5, 9, 10, 16), (2, 3, 7)):
        yield _fixed(
            f"multiply-{a}-mod-{n}",
            lambda i, n=n, a=a: ((i * a + 1) % n,),
            (n,),
            B if math.gcd(a, n) == 1 else N,
        )
    for n in (4, 5, 12):
        yield _fixed(f"skew-{n}", lambda i, j, n=n: (i, (j + i) % n), (6, n), B)
        yield _fixed(f"skew-back-{n}", lambda i, j, n=n: (i, (j - i * 3) % n), (6, n), B)
        yield _fixed(
            f"swin-shift-{n}", lambda b, h, w, n=n: (b, (h + 2) % n, (w - 2) % n), (1, n, n), B
        )
        yield _fixed(
            f"rotate-split-{n}", lambda i, n=n: ((i + 3) % (2 * n) // 2, (i + 3) % 2), (2 * n,), B
        )
    yield _fixed("latin", lambda i, j: ((i + j) % 5, (i + j * 2) % 5), (5, 5), B)
    yield _fixed("latin-singular", lambda i, j: ((i + j) % 5, (i * 2 + j * 2) % 5), (5, 5), N)


def reversals() -> Iterator[Case]:
    for n in (1, 2, 9, 10, 16):
        yield _fixed(f"reverse-{n}", lambda i, n=n: (n - 1 - i,), (n,), B)
        yield _fixed(f"reverse-both-{n}", lambda i, j, n=n: (n - 1 - i, 4 - j), (n, 5), B)
    for n in (6, 10, 15):
        yield _fixed(
            f"reverse-split-{n}",
            lambda i, n=n: ((n - 1 - i) // 3, (n - 1 - i) % 3),
            (n,),
            B if n % 3 == 0 else J,
        )
        yield _fixed(
            f"reverse-digit-{n}", lambda i, n=n: (i // 3 * 3 + 2 - i % 3,), (n - n % 3,), B
        )
        yield _fixed(f"reverse-rotate-{n}", lambda i, n=n: ((n + 1 - i) % n,), (n,), B)
    yield _fixed("negate", lambda i: (-i,), (6,), J)


def windows() -> Iterator[Case]:
    for s, r in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        yield _fixed(
            f"window-stride{s}-kernel{r}",
            lambda y, k, s=s: (y * s + k,),
            (5, r),
            N if r > s else B if r == s else B if r == 1 and s == 1 else J,
        )
    for s, d, r in ((1, 5, 3), (1, 4, 3), (6, 2, 3), (2, 3, 2), (2, 2, 3), (3, 2, 2)):
        seen = {y * s + k * d for y in range(5) for k in range(r)}
        yield _fixed(
            f"window-stride{s}-dilation{d}-kernel{r}",
            lambda y, k, s=s, d=d: (y * s + k * d,),
            (5, r),
            N if len(seen) < 5 * r else B if max(seen) + 1 == 5 * r else J,
        )
    yield _fixed("im2col", lambda y, x, p, q: (y * 2 + p, x * 2 + q), (3, 3, 2, 2), B)
    yield _fixed("im2col-overlap", lambda y, x, p, q: (y + p, x + q), (3, 3, 2, 2), N)
    yield _fixed("im2col-kept", lambda y, x, p, q: (y + p, x + q, p, q), (3, 3, 2, 2), J)


def remainders() -> Iterator[Case]:
    for a, b in ((2, 3), (3, 5), (4, 9), (5, 7), (4, 6), (6, 10)):
        yield _fixed(
            f"crt-{a}-{b}",
            lambda i, a=a, b=b: (i % a, i % b),
            (a * b,),
            B if math.gcd(a, b) == 1 else N,
        )
        yield _fixed(
            f"crt-short-{a}-{b}", lambda i, a=a, b=b: (i % a, i % b), (math.lcm(a, b) - 1,), J
        )
    yield _fixed("crt-3", lambda i: (i % 2, i % 3, i % 5), (30,), B)
    yield _fixed("crt-fused", lambda i, j: ((i * 5 + j) % 3, (i * 5 + j) % 5), (3, 5), B)
    yield _fixed("digits-overlap", lambda i: (i % 4, i // 2), (8,), J)
    yield _fixed("digit-missing", lambda i: (i // 6, i % 2), (12,), N)
    yield _fixed("digits-permuted", lambda i: (i // 2 % 3, i // 6, i % 2), (12,), B)


def piecewise() -> Iterator[Case]:
    for n in (4, 10, 16):
        h = n // 2
        yield _fixed(
            f"interleave-{n}", lambda i, h=h: (where(i < h, i * 2, (i - h) * 2 + 1),), (n,), B
        )
        yield _fixed(f"swap-halves-{n}", lambda i, h=h: (where(i < h, i + h, i - h),), (n,), B)
        yield _fixed(f"fold-{n}", lambda i, h=h: (where(i < h, i, i - h),), (n,), N)
        yield _fixed(
            f"reverse-tail-{n}", lambda i, n=n, h=h: (where(i < h, i, n - 1 + h - i),), (n,), B
        )
        yield _fixed(f"skip-{n}", lambda i, h=h: (where(i < h, i, i + 3),), (n,), J)
        yield _fixed(f"clamp-{n}", lambda i, n=n: (where(i < n - 2, i, n - 2),), (n,), N)


def linear() -> Iterator[Case]:
    yield _fixed("sum-difference", lambda i, j: (i + j, i - j + 4), (5, 5), J)
    yield _fixed("unimodular", lambda i, j: (i + j, i + j * 2), (5, 5), J)
    yield _fixed("singular", lambda i, j: (i + j, i * 2 + j * 2), (5, 5), N)
    yield _fixed("three", lambda i, j, k: (i + j, j + k, i + k), (3, 4, 3), J)
    for a in (2, 3, 5):
        yield _fixed(f"scale-{a}", lambda i, a=a: (i * a,), (7,), J)
        yield _fixed(f"shift-{a}", lambda i, a=a: (i + a,), (7,), J)
        yield _fixed(
            f"row-and-sum-{a}", lambda i, j, a=a: (i, j + i * a), (4, a), J if a > 0 else B
        )
        yield _fixed(f"drop-axis-{a}", lambda i, j: (i,), (4, a), N)
        yield _fixed(f"quotient-{a}", lambda i, a=a: (i // a,), (4 * a,), N)
        yield _fixed(f"remainder-{a}", lambda i, a=a: (i % a,), (4 * a,), N)
        yield _fixed(f"product-{a}", lambda i, j: (i * j,), (4, a), N)
        yield _fixed(f"constant-{a}", lambda i: (i, 0), (a,), B)
        yield _fixed(f"square-{a}", lambda i: (i * i,), (a,), B if a == 2 else J)
        yield _fixed(f"twice-{a}", lambda i, a=a: (i, i % a), (2 * a,), J)


def large() -> Iterator[Case]:
    big = 1 << 20
    yield _fixed("large-transpose", lambda i, j: (j, i), (big, 48), B)
    yield _fixed("large-flatten", lambda i, j: (i * 4096 + j,), (4096, 4096), B)
    yield _fixed("large-unflatten", lambda i: (i // 768, i % 768), (768 * 4096,), B)
    yield _fixed("large-pack", lambda i, j: (i // 16, j // 32, i % 16, j % 32), (4096, 4096), B)
    yield _fixed("large-ragged", lambda i, j: (i // 16, j, i % 16), (4099, 4096), J)
    yield _fixed("large-rotate", lambda i: ((i + 12345) % 3000000,), (3000000,), B)
    yield _fixed("large-reverse", lambda i: (2999999 - i,), (3000000,), B)
    yield _fixed("large-swizzle", lambda i, j: (i, j ^ i % 64), (65536, 64), B)
    yield _fixed("large-gray", lambda i: (i ^ i // 2,), (1 << 24,), B)
    yield _fixed("large-window", lambda y, r: (y * 4 + r,), (big, 4), B)
    yield _fixed("large-window-gap", lambda y, r: (y * 4 + r,), (big, 3), J)
    yield _fixed("large-window-overlap", lambda y, r: (y * 4 + r,), (big, 5), N)
    yield _fixed("large-quotient", lambda i: (i // 4,), (1 << 22,), N)
    yield _fixed("large-mod", lambda i: (i % 3000, i % 1009), (3000 * 1009,), B)
    yield _fixed("large-halves", lambda i: (where(i < big, i + big, i - big),), (2 * big,), B)
    yield _fixed("large-shuffle", lambda c, w: (c % 512 * 8 + c // 512, w), (4096, 4096), B)


def _symbolic(name: str, build: Callable[..., Built], truth: str, *sizes: str) -> Case:
    return Case(f"symbolic-{name}", build, truth, sizes)


def symbolic() -> Iterator[Case]:
    case = _symbolic
    one, two = ("n",), ("n", "m")
    yield case("identity", lambda n: (lambda i: (i,), (n,)), B, *one)
    yield case("transpose", lambda n, m: (lambda i, j: (j, i), (n, m)), B, *two)
    yield case("transpose-3", lambda n, m: (lambda i, j, k: (k, i, j), (n, m, 3)), B, *two)
    yield case("flatten", lambda n, m: (lambda i, j: (i * m + j,), (n, m)), B, *two)
    yield case("flatten-wrong", lambda n, m: (lambda i, j: (i * n + j,), (n, m)), N, *two)
    yield case(
        "flatten-3", lambda n, m: (lambda i, j, k: ((i * m + j) * 4 + k,), (n, m, 4)), B, *two
    )
    yield case("unflatten", lambda n, m: (lambda i: (i // m, i % m), (n * m,)), B, *two)
    yield case(
        "reshape", lambda n, m: (lambda i, j: ((i * m + j) // n, (i * m + j) % n), (n, m)), B, *two
    )
    yield case("transpose-flat", lambda n, m: (lambda i: (i % m * n + i // m,), (n * m,)), B, *two)
    yield case("reverse", lambda n: (lambda i: (n - 1 - i,), (n,)), B, *one)
    yield case("shift", lambda n: (lambda i: (i + 1,), (n,)), J, *one)
    yield case("scale", lambda n: (lambda i: (i * 3,), (n,)), J, *one)
    yield case("quotient", lambda n: (lambda i: (i // 2,), (n,)), N, *one)
    yield case("remainder", lambda n: (lambda i: (i % 4,), (n,)), N, *one)
    yield case("drop", lambda n, m: (lambda i, j: (i,), (n, m)), N, *two)
    yield case("sum", lambda n, m: (lambda i, j: (i + j,), (n, m)), N, *two)
    yield case(
        "batch-attention", lambda n, m: (lambda b, s, d: (b, d // 8, s, d % 8), (n, m, 32)), B, *two
    )
    yield case("im2col", lambda n: (lambda y, r: (y * 3 + r,), (n, 3)), B, *one)
    yield case("window-overlap", lambda n: (lambda y, r: (y * 2 + r,), (n, 3)), N, *one)
    yield case("window-kept", lambda n: (lambda y, r: (y + r, r), (n, 3)), J, *one)
    yield case("swizzle", lambda n: (lambda i, j: (i, j ^ i % 8), (n, 8)), B, *one)
    yield case("swap-blocks", lambda n: (lambda i: ((i + n) % (n * 2),), (n * 2,)), B, *one)
    for k in (1, 3, 5):
        yield case(f"rotate-{k}", lambda n, k=k: (lambda i: ((i + k) % n,), (n,)), B, *one)
        yield case(
            f"skew-{k}", lambda n, m, k=k: (lambda i, j: (i, (j + i * k) % m), (n, m)), B, *two
        )


def symbolic_packing() -> Iterator[Case]:
    case, one, two = _symbolic, ("n",), ("n", "m")
    for b in (2, 4, 8, 16):
        yield case(f"pack-{b}", lambda n, b=b: (lambda i: (i // b, i % b), (n * b,)), B, *one)
        yield case(f"pack-ragged-{b}", lambda n, b=b: (lambda i: (i // b, i % b), (n,)), J, *one)
        yield case(
            f"pack-both-{b}",
            lambda n, m, b=b: (lambda i, j: (i // b, j // 4, i % b, j % 4), (n * b, m * 4)),
            B,
            *two,
        )
        yield case(
            f"pack-nchw-{b}",
            lambda n, m, b=b: (lambda i, c, h: (i, c // b, h, c % b), (n, 2 * b, m)),
            B,
            *two,
        )
        yield case(f"unpack-{b}", lambda n, b=b: (lambda i, j: (i * b + j,), (n, b)), B, *one)
        yield case(
            f"shuffle-{b}", lambda n, b=b: (lambda i: (i % b * n + i // b,), (n * b,)), B, *one
        )
        yield case(
            f"space-to-depth-{b}",
            lambda n, m, b=b: (
                lambda h, w: (h % b * b + w % b, h // b, w // b),
                (n * b, m * b),
            ),
            B,
            *two,
        )
        yield case(
            f"reverse-pack-{b}",
            lambda n, b=b: (lambda i: ((n * b - 1 - i) // b, (n * b - 1 - i) % b), (n * b,)),
            B,
            *one,
        )


FAMILIES = (
    transposes,
    packing,
    flattening,
    blocks,
    swizzles,
    rotations,
    reversals,
    windows,
    remainders,
    piecewise,
    linear,
    large,
    symbolic,
    symbolic_packing,
)


def corpus() -> list[Case]:
    """All cases."""
    return [case for family in FAMILIES for case in family()]
