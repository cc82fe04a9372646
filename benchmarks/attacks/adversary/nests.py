"""Loops around a statement, and the families that vary loops."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping

from .program import Program, written

Shape = tuple[int, ...]
#: Returns the lines of a statement for expressions of the indices ``i0, i1, …``.
Statement = Callable[[Mapping[str, str]], str]


def renamed(line: str, values: Mapping[str, str]) -> str:
    """Replace the indices in a line by expressions."""
    return re.sub(r"\bi\d+\b", lambda m: values.get(m[0], m[0]), line)


def nest(rng: random.Random, shape: Shape, statement: Statement) -> list[str]:
    """Return loops that run a statement for every element of a shape, in a random form."""
    indices = {f"i{d}": f"i{d}" for d in range(len(shape))}
    makers: tuple[Callable[..., list[str]], ...] = (_plain, _plain, _block, _block, _fused, _split)
    return rng.choice(makers)(rng, shape, statement, indices)


def _indented(lines: list[str], by: int = 1) -> list[str]:
    return ["    " * by + line for line in lines]


def _plain(
    rng: random.Random, shape: Shape, statement: Statement, indices: dict[str, str]
) -> list[str]:
    lines = [statement(indices)]
    for d in reversed(range(len(shape))):
        extent = shape[d]
        kind = rng.choice(("range", "range", "T.serial", "T.unroll", *["T.parallel"] * (d == 0)))
        if d == len(shape) - 1 and extent > 1 and rng.random() < 0.2:
            kind = "T.vectorized"
        if kind == "range" and rng.random() < 0.2:
            lines = [renamed(line, {f"i{d}": f"(i{d} - 2)"}) for line in lines]
            lines = [f"for i{d} in range(2, {extent + 2}):", *_indented(lines)]
            continue
        if rng.random() < 0.2:
            lines = [renamed(line, {f"i{d}": f"({extent - 1} - i{d})"}) for line in lines]
        lines = [f"for i{d} in {kind}({extent}):", *_indented(lines)]
    return lines


def _block(
    rng: random.Random, shape: Shape, statement: Statement, indices: dict[str, str]
) -> list[str]:
    names = [f"i{d}" for d in range(len(shape))]
    order = rng.sample(range(len(shape)), len(shape))
    lines = ["with T.sblock('b'):"]
    lines += [f"    v{n} = T.axis.spatial({e}, {n})" for n, e in zip(names, shape, strict=True)]
    lines.append("    " + statement({n: f"v{n}" for n in names}))
    for d in order:
        lines = [f"for i{d} in range({shape[d]}):", *_indented(lines)]
    return lines


def _fused(
    rng: random.Random, shape: Shape, statement: Statement, indices: dict[str, str]
) -> list[str]:
    total, values = 1, {}
    for d in reversed(range(len(shape))):
        at = "f" if total == 1 else f"f // {total}"
        values[f"i{d}"] = f"({at})" if d == 0 else f"({at}) % {shape[d]}"
        total *= shape[d]
    kind = rng.choice(("range", "T.parallel"))
    return [f"for f in {kind}({total}):", "    " + statement(values)]


def _split(
    rng: random.Random, shape: Shape, statement: Statement, indices: dict[str, str]
) -> list[str]:
    by, extent = rng.choice((2, 3, 4)), shape[0]
    lines = [statement({**indices, "i0": f"(a * {by} + b)"})]
    if extent % by:
        lines = [f"if a * {by} + b < {extent}:", *_indented(lines)]
    for d in reversed(range(1, len(shape))):
        lines = [f"for i{d} in range({shape[d]}):", *_indented(lines)]
    return [f"for a, b in T.grid({-(-extent // by)}, {by}):", *_indented(lines)]


# ---------------------------------------------------------------------------- families


def reductions(rng: random.Random) -> Program:
    """Sums, products and extremes: what they start at, in which order, of which type."""
    dtype = rng.choice(("float32", "float32", "float64", "float16", "int32", "int8", "uint8"))
    target = rng.choice((dtype, dtype, dtype, "float32", "int32"))
    n, m = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3, 5))
    starts = ["0", "0", "0", "1"]
    if "float" in target:
        starts += ["-0.0", "'-inf'", "'inf'"]
    start = rng.choice((*(f"T.{target}({s})" for s in starts), f"T.min_value({target!r})",
                        f"T.max_value({target!r})"))  # fmt: skip
    load = rng.choice(("x[i, k]", "x[i, k]", "x[i, k] * x[i, k]", "x[k, i]", "y[k] * x[i, k]",
                       f"x[i, {m} - 1 - k]", "T.abs(x[i, k])"))  # fmt: skip
    shape = (m, n) if load == "x[k, i]" else (n, m)
    value = load if dtype == target else f"T.Cast({target!r}, {load})"
    combine = rng.choice(("{o} + {v}", "{o} + {v}", "T.max({o}, {v})", "T.min({o}, {v})",
                          "{o} * {v}", "{v} + {o}", "T.max({v}, {o})", "{o} - {v}",
                          "T.Select({v} > {o}, {v}, {o})"))  # fmt: skip
    output = "out[i]"
    step = combine.format(o=output, v=value)
    later = combine.format(o=output, v=re.sub(r"\bk\b", "(k + 1)", value))
    body = rng.choice(
        (
            [f"for i in range({n}):", f"    {output} = {start}", f"    for k in range({m}):",
             f"        {output} = {step}"],
            [f"for i in range({n}):", f"    {output} = {start}", f"for k, i in T.grid({m}, {n}):",
             f"    {output} = {step}"],
            [f"for i, k in T.grid({n}, {m}):", "    with T.sblock('b'):",
             "        vi, vk = T.axis.remap('SR', [i, k])", "        with T.init():",
             f"            out[vi] = {start}",
             "        " + re.sub(r"\b([ik])\b", r"v\1", f"{output} = {step}")],
            [f"for i in range({n}):", f"    {output} = {value.replace('k', '0') if m else start}",
             f"    for k in range({m} - 1):",
             f"        {output} = {later}"],
        )
    )  # fmt: skip
    params = [("x", shape, dtype), ("y", (m,), dtype), ("out", (n,), target)]
    if "y[" not in value:
        del params[1]
    return written("reductions", params, body)


def moves(rng: random.Random) -> Program:
    """Data movement: elements change places, and nothing is computed."""
    n, m = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 3, 4, 6))
    dtype = rng.choice(("float32", "int8", "bool", "int64", "float16"))
    zero = {"bool": "T.bool(False)"}.get(dtype, f"T.{dtype}({rng.choice((0, 0, 1))})")
    choices: list[tuple[Shape, Shape, str]] = [
        ((n, m), (m, n), "x[i1, i0]"),
        ((n, m), (n, m), f"x[{n} - 1 - i0, i1]"),
        ((n, m), (n, m), f"x[i0, (i1 + {rng.randrange(m)}) % {m}]"),
        ((n, m), (n * m,), f"x[i0 // {m}, i0 % {m}]"),
        ((n * m,), (n, m), f"x[i0 * {m} + i1]"),
        ((n * m,), (n, m), f"x[i1 * {n} + i0]"),
        ((n * 2, m), (n, m), f"x[i0 * 2 + {rng.choice((0, 1))}, i1]"),
        ((n + 2, m), (n, m), f"x[i0 + {rng.choice((0, 1, 2))}, i1]"),
        ((n, m), (n, m * 2), "x[i0, i1 // 2]"),
        ((n, m), (n, m * 2), f"x[i0, i1 % {m}]"),
        ((m,), (n, m), "x[i1]"),
        ((n, m), (n, m), "x[i0, i1]"),
        ((n, m), (n, m), "x[i0, T.bitwise_xor(i1, 1)]" if m % 2 == 0 else "x[i0, i1]"),
        ((n, m), (n, m), f"T.if_then_else(i1 >= i0, x[i0, i1], {zero})"),
        ((n, m), (n, m), f"T.Select(i1 <= i0, x[i0, i1], {zero})"),
        ((n, m), (n + 2, m), f"T.if_then_else(1 <= i0 and i0 < {n + 1}, x[i0 - 1, i1], {zero})"),
        ((n, m), (n + 2, m), f"x[T.max(T.min(i0 - 1, {n - 1}), 0), i1]"),
        ((n, m), (n + 1, m), f"T.if_then_else(i0 < {n}, x[i0, i1], {zero})"),
        ((n, m), (n + 1, m), f"T.if_then_else(i0 < {n}, x[i0, i1], y[0, i1])"),
        ((n, m), (n, m, 2), "T.if_then_else(i2 == 0, x[i0, i1], y[i0, i1])"),
        ((m, m), (m,), "x[i0, i0]"),
        ((n, m), (n, 1, m), "x[i0, i2]"),
    ]
    source, target, value = rng.choice(choices)
    params = [("x", source, dtype), ("y", source, dtype), ("out", target, dtype)]
    if "y[" not in value:
        del params[1]
    index = ", ".join(f"i{d}" for d in range(len(target)))
    body = nest(rng, target, lambda v: renamed(f"out[{index}] = {value}", v))
    return written("moves", params, body)


def windows(rng: random.Random) -> Program:
    """Products and windows with strides, dilation and padding, nearly convolutions and pools."""
    n, k = rng.choice((4, 5, 6)), rng.choice((1, 2, 3))
    stride, dilation, pad = rng.choice((1, 1, 2)), rng.choice((1, 1, 2)), rng.choice((0, 0, 1))
    length = (n + 2 * pad - dilation * (k - 1) - 1) // stride + 1
    at = f"i * {stride} + r * {dilation}" + (f" - {pad}" if pad else "")
    fill = rng.choice(("T.float32(0)", "T.float32(0)", "T.float32('-inf')", "T.float32(1)"))
    guard = rng.choice(
        (f"0 <= {at} and {at} < {n}", f"{pad} <= i * {stride} + r * {dilation} and {at} < {n}")
    )
    element = f"x[0, c, {at}]"
    read = f"T.if_then_else({guard}, {element}, {fill})" if pad else element
    form = rng.choice(("conv", "conv", "max", "avg", "matmul"))
    channels = rng.choice((1, 2, 3))
    if form == "conv":
        weight = rng.choice(("w[f, c, r]", f"w[f, c, {k - 1} - r]", "w[c, f, r]"))
        shape = (channels, 2, k) if weight == "w[c, f, r]" else (2, channels, k)
        body = [f"for f, i in T.grid(2, {length}):", "    out[0, f, i] = T.float32(0)",
                f"    for c, r in T.grid({channels}, {k}):",
                f"        out[0, f, i] = out[0, f, i] + {read} * {weight}"]  # fmt: skip
        params = [("x", (1, channels, n), "float32"), ("w", shape, "float32"),
                  ("out", (1, 2, length), "float32")]  # fmt: skip
        return written("windows", params, body)
    if form == "matmul":
        return _matmul(rng)
    start = {"max": rng.choice(("T.min_value('float32')", "T.float32('-inf')", "T.float32(0)"))}
    step = {"max": f"T.max(out[0, c, i], {read})"}.get(form, f"out[0, c, i] + {read}")
    first = start.get(form, "T.float32(0)")
    body = [f"for c, i in T.grid({channels}, {length}):", f"    out[0, c, i] = {first}",
            f"    for r in range({k}):", f"        out[0, c, i] = {step}"]  # fmt: skip
    if form == "avg":
        by = rng.choice((f"T.float32({k})", f"T.float32({k + 1})", f"T.Cast('float32', {k})"))
        body.append(f"    out[0, c, i] = out[0, c, i] / {by}")
    return written(
        "windows",
        [("x", (1, channels, n), "float32"), ("out", (1, channels, length), "float32")],
        body,
    )


def _matmul(rng: random.Random) -> Program:
    """A product of matrices, transposed or not, that sums in its own or in a wider type."""
    a, b = rng.choice((("x[i, k]", "y[k, j]"), ("x[k, i]", "y[k, j]"), ("x[i, k]", "y[j, k]")))
    sizes = {"i": 2, "j": 3, "k": 4}
    shapes = [tuple(sizes[v.strip()] for v in t[2:-1].split(",")) for t in (a, b)]
    more = rng.choice(("", "", " + out[i, j] * T.float32(0)"))
    dtype = rng.choice(("float32", "float16", "int8"))
    acc = rng.choice((dtype, "float32" if "float" in dtype else "int32"))
    cast = (lambda t: t) if acc == dtype else (lambda t: f"T.Cast({acc!r}, {t})")
    more = more if acc == "float32" else ""
    body = ["for i, j in T.grid(2, 3):", f"    out[i, j] = T.{acc}(0)",
            "    for k in range(4):",
            f"        out[i, j] = out[i, j] + {cast(a)} * {cast(b)}{more}"]  # fmt: skip
    params = [("x", shapes[0], dtype), ("y", shapes[1], dtype), ("out", (2, 3), acc)]
    return written("windows", params, body)


def stages(rng: random.Random) -> Program:
    """Several buffers, one after another: normalisations and chains, with a step changed."""
    n, m = rng.choice((1, 2, 3)), rng.choice((1, 3, 4))
    most = rng.choice(("T.max(s[i], x[i, j])", "T.max(s[i], x[i, j])", "T.max(x[i, j], s[i])"))
    body = rng.choice(
        (
            ["s = T.alloc_buffer((N,), 'float32')", "e = T.alloc_buffer((N, M), 'float32')",
             "z = T.alloc_buffer((N,), 'float32')", "for i in range(N):",
             "    s[i] = T.min_value('float32')", "    for j in range(M):",
             f"        s[i] = {most}",
             "for i, j in T.grid(N, M):", "    e[i, j] = T.exp(x[i, j] - s[i])",
             "for i in range(N):", "    z[i] = T.float32(0)", "    for j in range(M):",
             "        z[i] = z[i] + e[i, j]", "for i, j in T.grid(N, M):",
             rng.choice(("    out[i, j] = e[i, j] / z[i]",
                         "    out[i, j] = x[i, j] - s[i] - T.log(z[i])",
                         "    out[i, j] = e[i, j] * (T.float32(1) / z[i])"))],
            ["e = T.alloc_buffer((N, M), 'float32')", "for i, j in T.grid(N, M):",
             "    e[i, j] = x[i, j] + T.float32(1)", "for i, j in T.grid(N, M):",
             rng.choice(("    out[i, j] = T.max(e[i, j], T.float32(0))",
                         "    out[i, j] = e[i, j] * e[i, j]",
                         "    out[i, j] = e[i, j] - T.float32(1)",
                         "    out[i, j] = e[N - 1 - i, j]"))],
            ["s = T.alloc_buffer((N,), 'float32')", "for i in range(N):", "    s[i] = T.float32(0)",
             "    for j in range(M):", "        s[i] = s[i] + x[i, j]",
             "for i, j in T.grid(N, M):",
             rng.choice(("    out[i, j] = x[i, j] / s[i]",
                         "    out[i, j] = x[i, j] - s[i] / T.float32(M)",
                         "    out[i, j] = s[i] / T.float32(M)"))],
        )
    )  # fmt: skip
    lines = [re.sub(r"\bN\b", str(n), re.sub(r"\bM\b", str(m), line)) for line in body]
    return written("stages", [("x", (n, m), "float32"), ("out", (n, m), "float32")], lines)
