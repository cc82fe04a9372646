"""Maps that layouts have: transposes, packing, flattening, blocks, swizzles, rotations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from .map_case import B, Case, J, N, fixed


def transposes() -> Iterator[Case]:
    for shape in ((4, 6), (2, 3, 5), (2, 3, 4, 5)):
        for p in itertools.permutations(range(len(shape))):
            yield fixed(f"transpose-{p}", lambda *x, p=p: tuple(x[k] for k in p), shape, B)


def packing() -> Iterator[Case]:
    for c, b in itertools.product((8, 12, 16, 10, 3), (2, 4, 8)):
        yield fixed(
            f"NCHW{b}c-{c}",
            lambda n, c, h, w, b=b: (n, c // b, h, w, c % b),
            (1, c, 3, 2),
            B if c % b == 0 or c < b else J,
        )
    for o, i in itertools.product((32, 16, 20), (8, 12, 6)):
        yield fixed(
            f"OIHW4i16o-{o}x{i}",
            lambda o, i, h, w: (o // 16, i // 4, h, w, i % 4, o % 16),
            (o, i, 2, 1),
            B if o % 16 == 0 and i % 4 == 0 else J,
        )
    for k in (8, 16, 32):
        yield fixed(f"pack-vnni-{k}", lambda k, n: (k // 4, n, k % 4), (k, 6), B)
        yield fixed(
            f"two-level-{k}",
            lambda i, j: (i // 8, j // 8, i % 8 // 2, j % 8 // 4, i % 2, j % 4),
            (k, 24),
            B,
        )
        yield fixed(
            f"two-level-fused-{k}",
            lambda i, j: (i // 8, j // 8, (i % 8) * 8 + j % 8),
            (k, 16),
            B,
        )
    for n in (9, 17, 30):
        yield fixed(
            f"tile-not-divisible-{n}", lambda i, j: (i // 4, j // 8, i % 4, j % 8), (n, n), J
        )


def flattening() -> Iterator[Case]:
    for a, b, c in ((3, 4, 5), (2, 2, 7), (8, 1, 3), (5, 6, 1), (1, 1, 9)):
        yield fixed(
            f"flatten-{a}{b}{c}", lambda i, j, k, b=b, c=c: ((i * b + j) * c + k,), (a, b, c), B
        )
        yield fixed(
            f"unflatten-{a}{b}{c}",
            lambda i, b=b, c=c: (i // (b * c), i // c % b, i % c),
            (a * b * c,),
            B,
        )
        yield fixed(
            f"flatten-column-major-{a}{b}{c}",
            lambda i, j, k, a=a, b=b: (i + a * (j + b * k),),
            (a, b, c),
            B,
        )
        yield fixed(
            f"reshape-{a}{b}{c}",
            lambda i, j, k, b=b, c=c: (((i * b + j) * c + k) // 2, ((i * b + j) * c + k) % 2),
            (a, b, c),
            B if a * b * c % 2 == 0 else J,
        )


def blocks() -> Iterator[Case]:
    for r in (2, 3, 4):
        yield fixed(
            f"space-to-depth-{r}",
            lambda c, h, w, r=r: (c * r * r + (h % r) * r + w % r, h // r, w // r),
            (2, 2 * r, 3 * r),
            B,
        )
        yield fixed(
            f"depth-to-space-DCR-{r}",
            lambda c, h, w, r=r: (c % 2, h * r + c // (2 * r), w * r + c // 2 % r),
            (2 * r * r, 2, 3),
            B,
        )
        yield fixed(
            f"depth-to-space-CRD-{r}",
            lambda c, h, w, r=r: (c // (r * r), h * r + c // r % r, w * r + c % r),
            (2 * r * r, 2, 3),
            B,
        )
        yield fixed(
            f"space-to-depth-ragged-{r}",
            lambda h, w, r=r: ((h % r) * r + w % r, h // r, w // r),
            (2 * r + 1, 3 * r),
            J,
        )
        for g in (2, 3):
            yield fixed(
                f"channel-shuffle-{g}-{r}",
                lambda c, w, g=g, r=r: (c % r * g + c // r, w),
                (g * r, 2),
                B,
            )


def swizzles() -> Iterator[Case]:
    for k in (2, 4, 8):
        yield fixed(f"xor-row-{k}", lambda i, j, k=k: (i, j ^ i % k), (16, 8), B)
        yield fixed(f"xor-odd-rows-{k}", lambda i, j, k=k: (i, j ^ i % k), (13, 8), B)
        yield fixed(
            f"xor-vector-{k}",
            lambda i, j, k=k: (i, (j // 4 ^ i % k) * 4 + j % 4),
            (10, 32),
            B,
        )
        yield fixed(
            f"xor-after-flatten-{k}",
            lambda i, j, k=k: ((i * 32 + j) ^ (i % k) * 4,),
            (8, 32),
            B,
        )
        yield fixed(f"xor-literal-{k}", lambda i, k=k: (i ^ k,), (16,), B)
        yield fixed(f"xor-outside-{k}", lambda i, k=k: (i ^ 16 * k,), (16,), J)
        yield fixed(f"xor-self-{k}", lambda i, j, k=k: (i ^ i % k, j), (16, 3), N)
        yield fixed(f"xor-both-{k}", lambda i, j, k=k: (i ^ j // k, j), (8, 8), B)
    yield fixed("gray", lambda i: (i ^ i // 2,), (64,), B)
    yield fixed("xor-sum", lambda i, j: (i ^ j,), (8, 8), N)
    for b in (2, 3, 4):
        yield fixed(
            f"morton-{b}",
            lambda i, j, b=b: (
                sum(((i // 2**k) % 2) * 4**k * 2 + ((j // 2**k) % 2) * 4**k for k in range(b)),
            ),
            (2**b, 2**b),
            B,
        )
        yield fixed(
            f"bit-reversal-{b}",
            lambda i, b=b: (sum(((i // 2**k) % 2) * 2 ** (b - 1 - k) for k in range(b)),),
            (2**b,),
            B,
        )


def rotations() -> Iterator[Case]:
    for n, k in itertools.product((7, 10, 16), (1, 3, -2, 12)):
        yield fixed(f"rotate-{n}-{k}", lambda i, n=n, k=k: ((i + k) % n,), (n,), B)
    for n, a in itertools.product((5, 9, 10, 16), (2, 3, 7)):
        yield fixed(
            f"multiply-{a}-mod-{n}",
            lambda i, n=n, a=a: ((i * a + 1) % n,),
            (n,),
            B if math.gcd(a, n) == 1 else N,
        )
    for n in (4, 5, 12):
        yield fixed(f"skew-{n}", lambda i, j, n=n: (i, (j + i) % n), (6, n), B)
        yield fixed(f"skew-back-{n}", lambda i, j, n=n: (i, (j - i * 3) % n), (6, n), B)
        yield fixed(
            f"swin-shift-{n}", lambda b, h, w, n=n: (b, (h + 2) % n, (w - 2) % n), (1, n, n), B
        )
        yield fixed(
            f"rotate-split-{n}", lambda i, n=n: ((i + 3) % (2 * n) // 2, (i + 3) % 2), (2 * n,), B
        )
    yield fixed("latin", lambda i, j: ((i + j) % 5, (i + j * 2) % 5), (5, 5), B)
    yield fixed("latin-singular", lambda i, j: ((i + j) % 5, (i * 2 + j * 2) % 5), (5, 5), N)


def reversals() -> Iterator[Case]:
    for n in (1, 2, 9, 10, 16):
        yield fixed(f"reverse-{n}", lambda i, n=n: (n - 1 - i,), (n,), B)
        yield fixed(f"reverse-both-{n}", lambda i, j, n=n: (n - 1 - i, 4 - j), (n, 5), B)
    for n in (6, 10, 15):
        yield fixed(
            f"reverse-split-{n}",
            lambda i, n=n: ((n - 1 - i) // 3, (n - 1 - i) % 3),
            (n,),
            B if n % 3 == 0 else J,
        )
        yield fixed(f"reverse-digit-{n}", lambda i, n=n: (i // 3 * 3 + 2 - i % 3,), (n - n % 3,), B)
        yield fixed(f"reverse-rotate-{n}", lambda i, n=n: ((n + 1 - i) % n,), (n,), B)
    yield fixed("negate", lambda i: (-i,), (6,), J)
