"""PrimFuncs that are nearly operators, generated: one seed is one program.

A program is an expression that is an operator's, or almost, in a nest of loops that computes every
element of one output, or almost. A program records what the generator knows: the range of data used
as indices, and whether iterations race.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from . import expressions, nests, sizes
from .expressions import Operands
from .opaque import opaque
from .orders import orders
from .program import Program, written

Family = Callable[[random.Random], Program]


def program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    return rng.choice(FAMILIES)(rng)


def shape_of(rng: random.Random, ranks: tuple[int, ...] = (1, 1, 2, 2, 3)) -> tuple[int, ...]:
    """Small extents, now and then 1; 0 and scalars are families of their own."""
    return tuple(rng.choice((1, 2, 3, 4, 5, 8)) for _ in range(rng.choice(ranks)))


# ---------------------------------------------------------------------------- element by element


def elementwise(rng: random.Random) -> Program:
    """A formula of one or two inputs, one of which may be broadcast."""
    return _pointwise(rng, "formulas", expressions.formula)


def nans(rng: random.Random) -> Program:
    """Selections, minima and signs, which treat NaN and signed zeros differently."""
    return _pointwise(rng, "NaN, inf, -0", expressions.selection)


def widths(rng: random.Random) -> Program:
    """Arithmetic, bits and quotients of integers of all widths."""
    return _pointwise(rng, "integer widths", expressions.integer)


def casts(rng: random.Random) -> Program:
    """One to three conversions, with or without an operation between them."""
    return _pointwise(rng, "casts", expressions.conversion)


def _pointwise(
    rng: random.Random, family: str, draw: Callable[[random.Random, Operands], tuple[str, str]]
) -> Program:
    shape = shape_of(rng)
    source = expressions.source_type(rng, family)
    index = [f"i{d}" for d in range(len(shape))]
    second = shape if rng.random() < 0.6 else tuple(1 if rng.random() < 0.5 else e for e in shape)
    at = [v if e == s else "0" for v, e, s in zip(index, second, shape, strict=True)]
    operands = Operands(f"x[{', '.join(index)}]", f"y[{', '.join(at)}]", source)
    value, target = draw(rng, operands)
    params = [("x", shape, source), ("y", second, source), ("out", shape, target)]
    if "y[" not in value:
        del params[1]
    if "x[" not in value and len(params) > 1:
        del params[0]
    body = nests.nest(rng, shape, lambda v: nests.renamed(f"out[{', '.join(index)}] = {value}", v))
    return written(family, params, body)


# ---------------------------------------------------------------------------- other families


def predicates(rng: random.Random) -> Program:
    """Conditional statements, some of which skip elements or write them twice."""
    n = rng.choice((4, 6, 8))
    value = rng.choice(("T.exp(x[i])", "x[i] + y[i]", "T.max(x[i], T.float32(0))"))
    k = rng.randrange(n + 1)
    body = rng.choice(
        (
            [f"for i in range({n}):", f"    if i < {k}:", f"        out[i] = {value}",
             "    else:", f"        out[i] = {rng.choice((value, 'x[i]', 'T.float32(0)'))}"],
            [f"for i in range({n}):", f"    if i < {k}:", f"        out[i] = {value}",
             f"for i in range({n}):", f"    if i >= {k}:", f"        out[i] = {value}"],
            [f"for i in range({n + 2}):", '    with T.sblock("b"):',
             f"        v = T.axis.spatial({n}, i)", f"        T.where(i < {n})",
             f"        out[v] = {value.replace('[i]', '[v]')}"],
            [f"for i in range({n}):", '    with T.sblock("b"):',
             f"        v = T.axis.spatial({n}, i)", f"        T.where(i < {k})",
             f"        out[v] = {value.replace('[i]', '[v]')}"],
            [f"for i in range({n}):", f"    out[i] = {value}",
             f"for i in range({k}):", f"    out[i] = {rng.choice((value, 'T.float32(0)'))}"],
            [f"for i in range({n}):", "    if x[i] > T.float32(0):", f"        out[i] = {value}",
             "    else:", f"        out[i] = {rng.choice((value, 'T.float32(0)'))}"],
            [f"for a, b in T.grid({-(-n // 4)}, 4):", f"    if a * 4 + b < {n}:",
             f"        out[a * 4 + b] = {value.replace('[i]', '[a * 4 + b]')}"],
        )
    )  # fmt: skip
    kept = [p for p in ("x", "y") if any(f"{p}[" in line for line in body)]
    params = [(p, (n,), "float32") for p in (*kept, "out")]
    return written("predicates", params, body)


def pragmas(rng: random.Random) -> Program:
    """Annotations of loops, blocks and statements, neutral ones and others."""
    key = rng.choice(KEYS)
    place = rng.choice(("loop", "block", "attr"))
    value = rng.choice(("T.exp(x[i])", "x[i] * T.float32(2)", "x[7 - i]"))
    body = {
        "loop": [f'for i in T.serial(8, annotations={{"{key}": 1}}):', f"    out[i] = {value}"],
        "block": ["for i in range(8):", '    with T.sblock("b"):',
                  "        v = T.axis.spatial(8, i)", f'        T.sblock_attr({{"{key}": 1}})',
                  f"        out[v] = {value.replace('i]', 'v]').replace('- i', '- v')}"],
        "attr": [f'with T.attr(0, "{key}", 1):', "    for i in range(8):",
                 f"        out[i] = {value}"],
    }[place]  # fmt: skip
    if rng.random() < 0.3:
        body = ["for i in range(8):", "    out[i] = T.float32(7)", *body]
    params = [("x", (8,), "float32"), ("out", (8,), "float32")]
    return written("pragmas", params, body, broken="skip_region" in key)


KEYS = (
    "pragma_debug_skip_region",
    "pragma_auto_unroll_max_step",
    "pragma_unroll_explicit",
    "pragma_loop_partition_hint",
    "schedule_rule",
    "software_pipeline_stage",
    "pragma_import_c",
    "async_scope",
    "unknown_key",
)


def races(rng: random.Random) -> Program:
    """Iterations that run at the same time, and meet or do not."""
    kind = rng.choice(("T.parallel", "T.vectorized"))
    text, meets = rng.choice(
        (
            (["for i in {k}(8):", "    out[i] = T.exp(x[i])"], False),
            (["for i in {k}(8):", "    out[i // 2] = x[i]"], True),
            (["for i in {k}(8):", "    out[i % 4] = x[i % 4]"], False),
            (["for i in {k}(8):", "    out[0] = x[i]"], True),
            (["for i in range(4):", "    out[i] = T.float32(0)", "for i in {k}(8):",
              "    out[i % 4] = out[i % 4] + x[i]"], True),
            (["for i in range(8):", "    t[i] = x[i]", "for i in {k}(7):",
              "    t[i + 1] = t[i]", "for i in range(4):", "    out[i] = t[i]"], True),
            (["for i in {k}(4):", "    t[0] = x[i]", "    out[i] = t[0]"], True),
            (["for i in {k}(4):", "    t[i] = x[i]", "    out[i] = t[i] + T.float32(1)"], False),
            (["for i in {k}(4):", "    for j in range(2):",
              "        out[(i + j) % 4] = x[(i + j) % 4]"], False),
            (["for i in {k}(4):", "    out[3 - i] = x[i]"], False),
        )
    )  # fmt: skip
    scratch = ["t = T.alloc_buffer((8,), 'float32')"] if any("t[" in line for line in text) else []
    size = 8 if "out[i] = T.exp" in text[-1] else 4
    body = scratch + [line.format(k=kind) for line in text]
    params = [("x", (8,), "float32"), ("out", (size,), "float32")]
    return written("races", params, body, races=meets)


def scatters(rng: random.Random) -> Program:
    """Elements that data chooses, read or stored."""
    n, m = rng.choice((3, 4)), rng.choice((3, 5))
    kind = rng.choice(("range", "range", "T.parallel"))
    update = rng.choice(("x[i]", "out[p[i]] + x[i]", "T.max(out[p[i]], x[i])"))
    body, size, meets = rng.choice(
        (
            ([f"for i in range({m}):", "    out[i] = x[p[i]]"], m, False),
            ([f"for i in range({m}):", "    out[i] = x[T.min(p[i], 1)]"], m, False),
            ([f"for i in range({m}):", f"    out[i] = x[T.floormod(p[i] + 1, {n})]"], m, False),
            ([f"for j in range({n}):", "    out[j] = T.float32(0)", f"for i in {kind}({m}):",
              f"    out[p[i]] = {update}"], n, kind != "range"),
            ([f"for j in range({n}):", "    out[j] = T.float32(0)", f"for i in range({m}):",
              f"    if p[i] == {n - 1}:", f"        out[p[i]] = {update}"], n, False),
        )
    )  # fmt: skip
    read = max(n, m)
    params = [("x", (read,), "float32"), ("p", (m,), rng.choice(("int32", "int64"))),
              ("out", (size,), "float32")]  # fmt: skip
    return written("data decides", params, body, places={1: (0, n - 1)}, races=meets)


def views(rng: random.Random) -> Program:
    """Other shapes and strides over one memory, and stores through them."""
    body = rng.choice(
        (
            ["t = T.alloc_buffer((2, 4), 'float32')", "u = T.decl_buffer((8,), data=t.data)",
             "for i in range(8):", "    u[i] = x[i]",
             "for i, j in T.grid(2, 4):", "    out[{a}] = t[i, j]"],
            ["t = T.alloc_buffer((8,), 'float32')", "u = T.decl_buffer((4, 2), data=t.data)",
             "for i in range(8):", "    t[i] = x[i]",
             "for i, j in T.grid(4, 2):", "    u[i, j] = u[i, j] + T.float32(1)",
             "for i in range(8):", "    out[i] = t[{b}]"],
            ["t = T.alloc_buffer((8,), 'float32')",
             "u = T.decl_buffer((2, 4), data=t.data, strides=[{s}])",
             "for i in range(8):", "    t[i] = x[i]",
             "for i, j in T.grid(2, 4):", "    out[{a}] = u[i, j]"],
            ["for i in range(2):", "    with T.sblock('b'):", "        v = T.axis.spatial(2, i)",
             "        T.reads(x[v * 4:v * 4 + 4])", "        T.writes(out[v * 4:v * 4 + 4])",
             "        m = T.match_buffer(x[v * 4:v * 4 + 4], (4,), 'float32')",
             "        for j in range(4):", "            out[v * 4 + j] = m[{c}]"],
        )
    )  # fmt: skip
    named = {
        "a": rng.choice(("i * 4 + j", "j * 2 + i", "(1 - i) * 4 + j")),
        "b": rng.choice(("i", "7 - i")),
        "c": rng.choice(("j", "3 - j")),
        "s": rng.choice(("4, 1", "1, 2", "0, 1", "2, 1", "1, 1")),
    }
    params = [("x", (8,), "float32"), ("out", (8,), "float32")]
    return written("views and strides", params, [line.format(**named) for line in body])


def aliases(rng: random.Random) -> Program:
    """Outputs that are read, and intermediate values that are overwritten."""
    body = rng.choice(
        (
            ["for i in range(8):", "    out[i] = out[i] + x[i]"],
            ["for i in range(8):", "    out[i] = x[i]", "for i in range(8):",
             "    out[i] = {f}"],
            ["for i in range(8):", "    out[i] = x[i]", "for i in range(8):",
             "    out[i] = out[7 - i]"],
            ["for i in range(8):", "    out[i] = x[i]", "for i in range(7):",
             "    out[i] = out[i + 1]"],
            ["for i in range(8):", "    out[i] = x[i]", "for i in range(7):",
             "    out[i + 1] = out[i]"],
            ["t = T.alloc_buffer((8,), 'float32')", "for i in range(8):", "    t[i] = x[i]",
             "for i in range(8):", "    t[i] = {g}", "    out[i] = t[{k}]"],
            ["for i in range(8):", "    x[i] = T.exp(x[i])", "    out[i] = x[i]"],
            ["t = T.alloc_buffer((1,), 'float32')", "for i in range(8):", "    t[0] = x[i]",
             "    out[i] = t[0] + T.float32(1)"],
            ["t = T.alloc_buffer((1,), 'float32')", "t[0] = x[0]", "for i in range(8):",
             "    out[i] = t[0]", "    t[0] = x[{k}]"],
        )
    )  # fmt: skip
    named = {
        "f": rng.choice(("out[i] + x[i]", "T.exp(out[i])", "out[i]")),
        "g": rng.choice(("T.exp(t[i])", "t[7 - i]", "t[i]")),
        "k": rng.choice(("i", "i", "7 - i", "0")),
    }
    params = [("x", (8,), "float32"), ("out", (8,), "float32")]
    return written("aliasing", params, [line.format(**named) for line in body])


def empty(rng: random.Random) -> Program:
    """Extents of zero, and scalars."""
    n = rng.choice((0, 0, 1, 3))
    body, shapes = rng.choice(
        (
            ([f"for i in range({n}):", "    out[i] = T.exp(x[i])"], ((n,), (n,))),
            ([f"for i in range({n}):", "    out[i] = T.exp(x[i])"], ((4,), (4,))),
            (["for j in range(4):", "    out[j] = T.float32({z})", f"    for k in range({n}):",
              "        out[j] = out[j] + x[j, k]"], ((4, n), (4,))),
            (["for j in range(4):", f"    for k in range({n}):", "        with T.sblock('b'):",
              "            vj, vk = T.axis.remap('SR', [j, k])", "            with T.init():",
              "                out[vj] = T.float32({z})",
              "            out[vj] = T.max(out[vj], x[vj, vk])"], ((4, n), (4,))),
            (["out[()] = T.exp(x[()])"], ((), ())),
            (["out[()] = T.float32({z})", f"for k in range({n}):",
              "    out[()] = out[()] + x[k]"], ((n,), ())),
        )
    )  # fmt: skip
    zero = rng.choice(("0", "0", "-0.0", "1", "'-inf'"))
    params = [("x", shapes[0], "float32"), ("out", shapes[1], "float32")]
    return written("zero extents", params, [line.format(z=zero) for line in body])


FAMILIES: tuple[Family, ...] = (
    elementwise, elementwise, nans, nans, widths, widths, casts, casts, predicates, pragmas, races,
    scatters, views, aliases, empty, nests.reductions, nests.reductions, nests.moves, nests.moves,
    nests.windows, nests.stages, opaque, opaque, orders, orders, sizes.elements, sizes.moves,
    sizes.moves, sizes.reductions, sizes.products, sizes.scalars,
)  # fmt: skip
