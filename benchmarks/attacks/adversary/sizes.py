"""Programs over symbolic sizes: extents that coincide, divide, add up, are 1, or are scalars."""

from __future__ import annotations

import random

from .program import Program, symbolic

Shape = tuple[str, ...]
#: A statement over ``i0, i1, …``, the shape of its output, and the shapes of its operands.
Move = tuple[Shape, dict[str, Shape], str]


def elements(rng: random.Random) -> Program:
    """Element by element, with operands of other sizes: of 1, of the other symbol, transposed."""
    shape = rng.choice((("n",), ("n", "m"), ("n", "3"), ("n", "n"), ("1", "n"), ("n", "m", "2")))
    index = [f"i{d}" for d in range(len(shape))]
    second = tuple(rng.choice((e, e, "1")) for e in shape)
    at = [v if e == s else "0" for v, e, s in zip(index, second, shape, strict=True)]
    if shape == ("n", "n") and rng.random() < 0.4:
        second, at = shape, index[::-1]
    x, y = f"x[{', '.join(index)}]", f"y[{', '.join(at)}]"
    size = rng.choice(("n", "n - 1", "n + 1", "n * n"))
    value = rng.choice(
        ("{x} + {y}", "{x} * {y}", "T.max({x}, {y})", "{x} - {y}", "{y} - {x}", "{x} / {y}",
         "T.exp({x})", "{x} * T.Cast('float32', {s})", "{x} / T.Cast('float32', {s})",
         "{x} + T.Cast('float32', i0)", "T.if_then_else(i0 < n - 1, {x}, {y})",
         "T.Select({x} > {y}, {x}, {y})", "T.if_then_else(n > 1, {x}, {y})")
    ).format(x=x, y=y, s=size)  # fmt: skip
    operands = {"x": shape, "y": second}
    return _program(rng, "sizes: elements", shape, operands, value)


def moves(rng: random.Random) -> Program:
    """Data movement over extents that are sums, products and quotients of sizes."""
    k = rng.choice(("2", "3", "4"))
    choices: list[Move] = [
        (("n * m",), {"x": ("n", "m")}, "x[i0 // m, i0 % m]"),
        (("n * m",), {"x": ("m", "n")}, "x[i0 % m, i0 // m]"),
        (("m * n",), {"x": ("n", "m")}, "x[i0 % n, i0 // n]"),
        (("n", "m"), {"x": ("n * m",)}, "x[i0 * m + i1]"),
        (("n", "m"), {"x": ("n * m",)}, "x[i1 * n + i0]"),
        (("n", k), {"x": (f"n * {k}",)}, f"x[i0 * {k} + i1]"),
        (("n", k), {"x": (f"n * {k}",)}, "x[i1 * n + i0]"),
        (("m", "n"), {"x": ("n", "m")}, "x[i1, i0]"),
        (("n", "n"), {"x": ("n", "n")}, "x[i1, i0]"),
        (("n", "m"), {"x": ("n", "m")}, "x[n - 1 - i0, i1]"),
        (("n", "m"), {"x": ("n", "m")}, f"x[i0, (i1 + {k}) % m]"),
        (("n", "m"), {"x": ("n", "m")}, "x[(i0 + m) % n, i1]"),
        (("n",), {"x": (f"n * {k}",)}, f"x[i0 * {k} + {rng.choice(('0', '1'))}]"),
        (("n",), {"x": (f"n + {k}",)}, f"x[i0 + {rng.choice(('0', '1', k))}]"),
        (("n",), {"x": ("n + m",)}, rng.choice(("x[i0]", "x[i0 + m]"))),
        ((f"n * {k}",), {"x": ("n",)}, f"x[i0 // {k}]"),
        ((f"n * {k}",), {"x": ("n",)}, "x[i0 % n]"),
        (("n * m",), {"x": ("n",)}, rng.choice(("x[i0 % n]", "x[i0 // m]", "x[i0 // m % n]"))),
        (("n + m",), {"x": ("n",), "y": ("m",)}, "T.if_then_else(i0 < n, x[i0], y[i0 - n])"),
        (("n + m",), {"x": ("n",), "y": ("m",)}, "T.if_then_else(m <= i0, x[i0 - m], y[i0])"),
        (("n + n",), {"x": ("n",), "y": ("n",)},
         "T.if_then_else(i0 % 2 == 0, x[i0 // 2], y[i0 // 2])"),
        ((f"n + {k}",), {"x": ("n",)},
         f"T.if_then_else(1 <= i0 and i0 < n + 1, x[i0 - 1], T.float32({rng.choice(('0', '1'))}))"),
        (("n", "n"), {"x": ("n", "n")},
         f"T.if_then_else(i1 <= i0{rng.choice(('', ' + 1', ' - 1'))}, x[i0, i1], T.float32(0))"),
        (("n", "m"), {"x": ("n", "m")},
         f"T.Select(i0 {rng.choice(('<', '<=', '>'))} i1, x[i0, i1], T.float32(0))"),
        (("n", "m"), {"x": ("n", "m")}, "x[T.min(i0 + 1, n - 1), i1]"),
        (("n", "m"), {"x": ("m",)}, "x[i1]"),
        (("n", "n"), {"x": ("n",)}, rng.choice(("x[i1]", "x[i0]"))),
        (("n", "m"), {"x": ("1", "m")}, "x[0, i1]"),
        (("n",), {"x": ("n", "n")}, "x[i0, i0]"),
        (("n",), {"x": ("n", "m")}, rng.choice(("x[i0, 0]", "x[i0, m - 1]"))),
        (("n", "1", "m"), {"x": ("n", "m")}, "x[i0, i2]"),
        ((f"n // {k}",), {"x": ("n",)}, f"x[i0 * {k}]"),
        ((f"(n + {k}) // {k}", k), {"x": ("n",)},
         f"T.if_then_else(i0 * {k} + i1 < n, x[i0 * {k} + i1], T.float32(0))"),
        (("n", "m"), {}, rng.choice(
            ("T.Cast('float32', n)", "T.Cast('float32', i0 * m + i1)", "T.Cast('float32', i1)",
             "T.if_then_else(i0 == i1, T.float32(1), T.float32(0))"))),
    ]  # fmt: skip
    shape, operands, value = rng.choice(choices)
    return _program(rng, "sizes: moves", shape, operands, value)


def reductions(rng: random.Random) -> Program:
    """Sums and extremes over a size, or nearly all of it."""
    whole = rng.choice(("m", "m", "m", "m - 1", "m + 1", "n", "i + 1", "m // 2"))
    source = {"m + 1": ("n", "m + 1"), "n": ("n", "n"), "i + 1": ("n", "n")}.get(whole, ("n", "m"))
    element = rng.choice(("x[i, k]", "x[i, k]", "x[i, k] * x[i, k]", "T.exp(x[i, k])"))
    start = rng.choice(("T.float32(0)", "T.float32(0)", "T.float32(1)", "T.min_value('float32')"))
    step = rng.choice(("out[i] + {v}", "out[i] + {v}", "T.max(out[i], {v})", "out[i] * {v}"))
    by = rng.choice(("m", "m", "m - 1", "m + 1", "n", "T.max(m - 1, 1)"))
    body = rng.choice(
        (
            ["for i in range(n):", f"    out[i] = {start}", f"    for k in range({whole}):",
             f"        out[i] = {step.format(v=element)}"],
            [f"for i, k in T.grid(n, {source[1]}):", "    with T.sblock('b'):",
             "        vi, vk = T.axis.remap('SR', [i, k])", "        with T.init():",
             f"            out[vi] = {start}",
             f"        out[vi] = {step.format(v=element)}".replace("i]", "vi]").replace("vvi", "vi")
             .replace("[i, k]", "[vi, vk]")],
            ["for i in range(n):", f"    out[i] = {element.replace('k', '0')}",
             "    for k in range(m - 1):",
             f"        out[i] = {step.format(v=element.replace('k]', 'k + 1]'))}"],
        )
    )  # fmt: skip
    if rng.random() < 0.4:
        last = f"out[i] / T.Cast('float32', {by})"
        body += ["for i in range(n):", f"    out[i] = {last}"]
    if "range(m - 1)" in body[2]:
        source = ("n", "m")
    return symbolic("sizes: reductions", {"x": source}, ("n",), body)


def products(rng: random.Random) -> Program:
    """Products of matrices whose sizes coincide."""
    a, b = rng.choice((("x[i, k]", "y[k, j]"), ("x[k, i]", "y[k, j]"), ("x[i, k]", "y[j, k]")))
    sizes = rng.choice(({"i": "n", "j": "m", "k": "4"}, {"i": "n", "j": "n", "k": "m"},
                        {"i": "n", "j": "n", "k": "n"}, {"i": "1", "j": "m", "k": "n"},
                        {"i": "n", "j": "m", "k": "1"}))  # fmt: skip
    shapes = [tuple(sizes[v.strip()] for v in t[2:-1].split(",")) for t in (a, b)]
    guard = rng.choice(("", "", "k <= i", "k < i", "k <= j"))
    term = f"{a} * {b}"
    term = f"T.if_then_else({guard}, {term}, T.float32(0))" if guard else term
    body = [f"for i, j in T.grid({sizes['i']}, {sizes['j']}):", "    out[i, j] = T.float32(0)",
            f"    for k in range({sizes['k']}):",
            f"        out[i, j] = out[i, j] + {term}"]  # fmt: skip
    shape = (sizes["i"], sizes["j"])
    return symbolic("sizes: products", {"x": shapes[0], "y": shapes[1]}, shape, body)


def scalars(rng: random.Random) -> Program:
    """Sizes that are parameters of their own, as offsets, lengths and values."""
    choices: tuple[tuple[str, dict[str, Shape], Shape], ...] = (
            ("x[i0 + k]", {"x": ("n + k",)}, ("n",)),
            ("x[i0]", {"x": ("n + k",)}, ("n",)),
            ("x[i0 % k]", {"x": ("k",)}, ("n * k",)),
            ("x[i0 // k]", {"x": ("n",)}, ("n * k",)),
            ("T.if_then_else(i0 < k, x[i0], T.float32(0))", {"x": ("n + k",)}, ("n + k",)),
            ("T.if_then_else(i0 < k, x[i0], y[i0])", {"x": ("n",), "y": ("n",)}, ("n",)),
            ("x[i0] * T.Cast('float32', k)", {"x": ("n",)}, ("n",)),
            ("T.Cast('float32', i0 + k)", {}, ("n",)),
            ("T.if_then_else(i0 == k, T.float32(1), T.float32(0))", {}, ("n",)),
            ("T.if_then_else(i1 == i0 + k, T.float32(1), T.float32(0))", {}, ("n", "m")),
            ("T.if_then_else(i1 <= i0 + k, x[i0, i1], T.float32(0))", {"x": ("n", "m")},
             ("n", "m")),
            ("T.if_then_else(i1 - i0 < k, x[i0, i1], T.float32(0))", {"x": ("n", "m")},
             ("n", "m")),
    )  # fmt: skip
    value, operands, shape = rng.choice(choices)
    return _program(rng, "sizes: scalars", shape, operands, value, ("k",))


def _program(
    rng: random.Random, family: str, shape: Shape, operands: dict[str, Shape], value: str,
    numbers: tuple[str, ...] = (),
) -> Program:  # fmt: skip
    kept = {name: s for name, s in operands.items() if f"{name}[" in value}
    index = ", ".join(f"i{d}" for d in range(len(shape)))
    return symbolic(family, kept, shape, _nest(rng, shape, f"out[{index}] = {value}"), numbers)


def _nest(rng: random.Random, shape: Shape, line: str) -> list[str]:
    """Loops around a statement: one for each extent, fused, split with a guard, or blocks."""
    kind = rng.choice(("loops", "loops", "block", "block", "fused", "split"))
    names = [f"i{d}" for d in range(len(shape))]
    if kind == "block":
        own = [f"v{n} = T.axis.spatial({e}, {n})" for n, e in zip(names, shape, strict=True)]
        for n in names:
            line = line.replace(n, f"v{n}")
        lines = ["with T.sblock('b'):", *(f"    {s}" for s in own), f"    {line}"]
    elif kind == "fused" and len(shape) > 1:
        places, rest = [], "f"
        for name, e in zip(reversed(names[1:]), reversed(shape[1:]), strict=True):
            places.append((name, f"({rest} % ({e}))"))
            rest = f"({rest} // ({e}))"
        for name, place in (*places, (names[0], rest)):
            line = line.replace(name, place)
        total = " * ".join(f"({e})" for e in shape)
        return [f"for f in range({total}):", f"    {line}"]
    elif kind == "split":
        by = rng.choice(("2", "3"))
        line = line.replace("i0", f"(a * {by} + b)")
        lines = [f"if a * {by} + b < {shape[0]}:", f"    {line}"]
        for name, e in zip(reversed(names[1:]), reversed(shape[1:]), strict=True):
            lines = [f"for {name} in range({e}):", *(f"    {s}" for s in lines)]
        return [f"for a, b in T.grid(({shape[0]} + {by} - 1) // {by}, {by}):",
                *(f"    {s}" for s in lines)]  # fmt: skip
    else:
        lines = [line]
    for name, e in zip(reversed(names), reversed(shape), strict=True):
        lines = [f"for {name} in range({e}):", *(f"    {s}" for s in lines)]
    return lines
