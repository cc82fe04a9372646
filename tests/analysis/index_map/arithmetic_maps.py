"""Maps of arithmetic: windows, remainders, pieces, sums, and large ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from .map_case import B, Case, J, N, fixed
from .oracle import where


def windows() -> Iterator[Case]:
    for s, r in itertools.product((1, 2, 3, 4), (1, 2, 3, 4)):
        yield fixed(
            f"window-stride{s}-kernel{r}",
            lambda y, k, s=s: (y * s + k,),
            (5, r),
            N if r > s else B if r == s else B if r == 1 and s == 1 else J,
        )
    for s, d, r in ((1, 5, 3), (1, 4, 3), (6, 2, 3), (2, 3, 2), (2, 2, 3), (3, 2, 2)):
        seen = {y * s + k * d for y in range(5) for k in range(r)}
        yield fixed(
            f"window-stride{s}-dilation{d}-kernel{r}",
            lambda y, k, s=s, d=d: (y * s + k * d,),
            (5, r),
            N if len(seen) < 5 * r else B if max(seen) + 1 == 5 * r else J,
        )
    yield fixed("im2col", lambda y, x, p, q: (y * 2 + p, x * 2 + q), (3, 3, 2, 2), B)
    yield fixed("im2col-overlap", lambda y, x, p, q: (y + p, x + q), (3, 3, 2, 2), N)
    yield fixed("im2col-kept", lambda y, x, p, q: (y + p, x + q, p, q), (3, 3, 2, 2), J)


def remainders() -> Iterator[Case]:
    for a, b in ((2, 3), (3, 5), (4, 9), (5, 7), (4, 6), (6, 10)):
        yield fixed(
            f"crt-{a}-{b}",
            lambda i, a=a, b=b: (i % a, i % b),
            (a * b,),
            B if math.gcd(a, b) == 1 else N,
        )
        yield fixed(
            f"crt-short-{a}-{b}", lambda i, a=a, b=b: (i % a, i % b), (math.lcm(a, b) - 1,), J
        )
    yield fixed("crt-3", lambda i: (i % 2, i % 3, i % 5), (30,), B)
    yield fixed("crt-fused", lambda i, j: ((i * 5 + j) % 3, (i * 5 + j) % 5), (3, 5), B)
    yield fixed("digits-overlap", lambda i: (i % 4, i // 2), (8,), J)
    yield fixed("digit-missing", lambda i: (i // 6, i % 2), (12,), N)
    yield fixed("digits-permuted", lambda i: (i // 2 % 3, i // 6, i % 2), (12,), B)


def piecewise() -> Iterator[Case]:
    for n in (4, 10, 16):
        h = n // 2
        yield fixed(
            f"interleave-{n}", lambda i, h=h: (where(i < h, i * 2, (i - h) * 2 + 1),), (n,), B
        )
        yield fixed(f"swap-halves-{n}", lambda i, h=h: (where(i < h, i + h, i - h),), (n,), B)
        yield fixed(f"fold-{n}", lambda i, h=h: (where(i < h, i, i - h),), (n,), N)
        yield fixed(
            f"reverse-tail-{n}", lambda i, n=n, h=h: (where(i < h, i, n - 1 + h - i),), (n,), B
        )
        yield fixed(f"skip-{n}", lambda i, h=h: (where(i < h, i, i + 3),), (n,), J)
        yield fixed(f"clamp-{n}", lambda i, n=n: (where(i < n - 2, i, n - 2),), (n,), N)


def linear() -> Iterator[Case]:
    yield fixed("sum-difference", lambda i, j: (i + j, i - j + 4), (5, 5), J)
    yield fixed("unimodular", lambda i, j: (i + j, i + j * 2), (5, 5), J)
    yield fixed("singular", lambda i, j: (i + j, i * 2 + j * 2), (5, 5), N)
    yield fixed("three", lambda i, j, k: (i + j, j + k, i + k), (3, 4, 3), J)
    for a in (2, 3, 5):
        yield fixed(f"scale-{a}", lambda i, a=a: (i * a,), (7,), J)
        yield fixed(f"shift-{a}", lambda i, a=a: (i + a,), (7,), J)
        yield fixed(f"row-and-sum-{a}", lambda i, j, a=a: (i, j + i * a), (4, a), J if a > 0 else B)
        yield fixed(f"drop-axis-{a}", lambda i, j: (i,), (4, a), N)
        yield fixed(f"quotient-{a}", lambda i, a=a: (i // a,), (4 * a,), N)
        yield fixed(f"remainder-{a}", lambda i, a=a: (i % a,), (4 * a,), N)
        yield fixed(f"product-{a}", lambda i, j: (i * j,), (4, a), N)
        yield fixed(f"constant-{a}", lambda i: (i, 0), (a,), B)
        yield fixed(f"square-{a}", lambda i: (i * i,), (a,), B if a == 2 else J)
        yield fixed(f"twice-{a}", lambda i, a=a: (i, i % a), (2 * a,), J)


def large() -> Iterator[Case]:
    big = 1 << 20
    yield fixed("large-transpose", lambda i, j: (j, i), (big, 48), B)
    yield fixed("large-flatten", lambda i, j: (i * 4096 + j,), (4096, 4096), B)
    yield fixed("large-unflatten", lambda i: (i // 768, i % 768), (768 * 4096,), B)
    yield fixed("large-pack", lambda i, j: (i // 16, j // 32, i % 16, j % 32), (4096, 4096), B)
    yield fixed("large-ragged", lambda i, j: (i // 16, j, i % 16), (4099, 4096), J)
    yield fixed("large-rotate", lambda i: ((i + 12345) % 3000000,), (3000000,), B)
    yield fixed("large-reverse", lambda i: (2999999 - i,), (3000000,), B)
    yield fixed("large-swizzle", lambda i, j: (i, j ^ i % 64), (65536, 64), B)
    yield fixed("large-gray", lambda i: (i ^ i // 2,), (1 << 24,), B)
    yield fixed("large-window", lambda y, r: (y * 4 + r,), (big, 4), B)
    yield fixed("large-window-gap", lambda y, r: (y * 4 + r,), (big, 3), J)
    yield fixed("large-window-overlap", lambda y, r: (y * 4 + r,), (big, 5), N)
    yield fixed("large-quotient", lambda i: (i // 4,), (1 << 22,), N)
    yield fixed("large-mod", lambda i: (i % 3000, i % 1009), (3000 * 1009,), B)
    yield fixed("large-halves", lambda i: (where(i < big, i + big, i - big),), (2 * big,), B)
    yield fixed("large-shuffle", lambda c, w: (c % 512 * 8 + c // 512, w), (4096, 4096), B)
