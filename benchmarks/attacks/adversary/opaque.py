"""A statement that can be analysed, next to one that hardly can, over the same memory.

The second one has a loop, a view, a pointer or a jump that an analysis may give up on. In either
case the answer must account for what the statement overwrites, skips or reads.
"""

from __future__ import annotations

import random

from .program import Program, written

SCRATCH = "{b} = T.alloc_buffer((8,), 'float32')"
#: Ways to name the memory of a buffer b: lines in front, lines inside the loop, the element i.
NAMES = (
    ((), (), "{b}[i]"),
    (("u = T.decl_buffer((8,), data={b}.data)",), (), "u[i]"),
    (("u = T.decl_buffer((2, 4), data={b}.data)",), (), "u[i // 4, i % 4]"),
    (("u = T.decl_buffer((8,), data={b}.data)", "w = T.decl_buffer((8,), data=u.data)"), (),
     "w[i]"),
    ((), ("u = T.decl_buffer((8,), data={b}.data)",), "u[i]"),
    ((), ("u = T.decl_buffer((4, 2), data={b}.data)",), "u[i // 2, i % 2]"),
    ((), ("u = T.decl_buffer((4,), data={b}.data, elem_offset=4)",), "u[i % 4]"),
    ((), ("u = T.decl_buffer((8,), data=T.handle_add_byte_offset({b}.data, 0))",), "u[i]"),
    ((), ("with T.sblock('b'):", "    v = T.axis.spatial(8, i)", "    T.reads({b}[0:8])",
          "    T.writes({b}[0:8])", "    u = T.match_buffer({b}[0:8], (8,), 'float32')"),
     "    u[v]"),
)  # fmt: skip
LOOPS = (
    "for i in range(8):",
    "for i in T.serial(0, 8, step=2):",
    "for i in T.serial(0, 8, step=3):",
    "for i in T.serial(8, annotations={'unknown_key': 1}):",
    "for i in T.serial(T.Cast('int32', x[0] == x[0]) * 8):",
)
VALUES = ("x[i]", "x[7 - i]", "T.float32(3)", "{b}[7 - i]", "T.sin({b}[i])", "T.exp(x[i])")
#: What else the statement does, after its store.
ALSO = (
    *[""] * 6,
    "if x[0] > T.float32(0):\n    return 0",
    "if i > 3:\n    return 0",
    "if i > 3:\n    T.evaluate(T.thread_return())",
    "if x[i] > T.float32(0):\n    break",
    "if x[i] > T.float32(0):\n    continue",
    "T.evaluate(T.call_extern('int32', 'memset', {b}.data, 0, 16))",
    "T.evaluate(T.call_extern('int32', 'memset', T.address_of({b}[i]), 0, 4))",
    "T.evaluate(T.call_extern('int32', 'memset', T.reinterpret('int64', {b}.data), 0, 16))",
    "s[i] = T.call_extern('float32', 'memset', T.reinterpret('int64', {b}.data), 0, 8)",
    "s[i] = T.call_pure_extern('float32', 'memset', T.address_of({b}[0]), 0, 8)",
    "T.evaluate(T.call_extern('float32', 'sinf', x[i]))",
)


def opaque(rng: random.Random) -> Program:
    """A buffer that one statement writes directly, and another through an alias."""
    first = rng.choice(("T.exp(x[i])", "x[i] * T.float32(2)", "x[7 - i]", "T.tanh(x[i])"))
    kept = rng.choice(("out", "t"))  # what the first statement writes
    harmed = rng.choice((kept, kept, kept, "s"))
    before, inside, name = rng.choice(NAMES)
    store = f"{name} = {rng.choice(VALUES).replace('[i]', '[v]' if 'v]' in name else '[i]')}"
    also = rng.choice(ALSO)
    if rng.random() < 0.3 and harmed != "s":  # only the second statement writes it
        before, inside, store = (), (), "s[i] = x[i]"
    body = [SCRATCH.format(b=b) for b in ("t", "s")] + list(before)
    body += ["for i in range(8):", f"    {kept}[i] = {first}"]
    body += [rng.choice(LOOPS)]
    body += [f"    {line}" for line in (*inside, store, *also.splitlines())]
    if kept == "t":
        body += ["for i in range(8):", f"    out[i] = {rng.choice(('t[i]', 'T.exp(t[i])'))}"]
    elif rng.random() < 0.3:
        value = rng.choice(("T.exp(x[i])", "T.exp(out[i])", "out[i] + x[i]"))
        body += ["for i in range(8):", f"    out[i] = {value}"]
    params = [("x", (8,), "float32"), ("out", (8,), "float32")]
    lines = [line.replace("{b}", harmed) for line in body]
    return written("not understood", params, lines)
