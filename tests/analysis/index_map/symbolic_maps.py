"""Maps over symbolic extents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .map_case import B, Built, Case, J, N


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
