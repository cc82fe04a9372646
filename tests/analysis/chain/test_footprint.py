"""A statement that is not understood may change only what it names, or nothing is answered."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from opinfo.analysis import Chain, PartlyRead, Refusal, op_info, op_infos
from opinfo.analysis.answer.internal_error import FAULT

HEADER = """# from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def main(x: T.Buffer((8,), "float32"), out: T.Buffer((8,), "float32")):
"""
EXP = """
for i in range(8):
    out[i] = T.exp(x[i])
"""
COPY = EXP.replace("T.exp(x[i])", "x[i]")
INNER = 't = T.alloc_buffer((8,), "float32")\n'


def program(*lines: str) -> Any:
    body = "".join(lines).strip("\n").splitlines()
    return tvm.script.from_source(HEADER + "".join(f"    {line}\n" for line in body))


def refused(*lines: str) -> Refusal:
    func = program(*lines)
    assert isinstance(op_info(func), Refusal)
    found = op_infos(func)
    assert isinstance(found, Refusal), found
    assert FAULT not in found.reason
    return found


VIEW = "u = T.decl_buffer((8,), data=out.data)\n"
VIEWS = {
    "a loop with an unknown annotation": (
        EXP,
        VIEW,
        'for i in T.serial(8, annotations={"unknown_key": 1}):\n    u[i] = x[i]',
    ),
    "a race": (EXP, VIEW, "for i in T.parallel(8):\n    u[0] = x[i]"),
    "what it reads": (COPY, VIEW, "for i in range(8):\n    u[i] = T.exp(out[7 - i])"),
    "an unknown annotation, and the view inside": (
        EXP,
        """
for k in range(1):
    with T.sblock("b"):
        T.reads()
        T.writes()
        u = T.decl_buffer((8,), data=out.data)
        for i in T.serial(8, annotations={"unknown_key": 1}):
            u[i] = x[7 - i]
""",
    ),
    "a matched region": (
        EXP,
        """
for i in range(2):
    with T.sblock("b"):
        v = T.axis.spatial(2, i)
        T.reads(x[v * 4:v * 4 + 4])
        T.writes(out[v * 4:v * 4 + 4])
        m = T.match_buffer(out[v * 4:v * 4 + 4], (4,), "float32")
        for j in T.serial(4, annotations={"unknown_key": 1}):
            m[j] = x[v * 4 + 3 - j]
""",
    ),
    "a view of a view": (
        EXP,
        VIEW,
        "w = T.decl_buffer((8,), data=u.data)\nfor i in range(8):\n    w[i] = x[7 - i]",
    ),
    "an intermediate buffer that is read later": (
        INNER,
        EXP.replace("out", "t"),
        "u = T.decl_buffer((8,), data=t.data)\n",
        'for i in T.serial(8, annotations={"unknown_key": 1}):\n    u[i] = x[i]\n',
        "for i in range(8):\n    out[i] = T.tanh(t[i])",
    ),
    "bytes of another type": (
        EXP,
        'for i in range(8):\n    u = T.decl_buffer((8,), "int32", data=out.data)\n    u[i] = 0',
    ),
    "bytes at an offset": (
        EXP,
        "for i in range(7):\n"
        "    u = T.decl_buffer((7,), data=T.handle_add_byte_offset(out.data, 4))\n"
        "    u[i] = x[i]",
    ),
    "memory at an address": (
        EXP,
        "for i in range(8):\n"
        '    q = T.alloc_buffer((8,), "float32", scope="shared", allocated_addr=[0])\n'
        "    q[i] = x[i]",
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_store_through_a_view_changes_its_memory(name: str) -> None:
    refused(*VIEWS[name])


JUMPS = ("return 0", "T.evaluate(T.thread_return())")


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("around", ["if x[0] > T.float32(0):", "for i in range(8):"])
def test_what_comes_after_a_return_may_not_run(around: str, jump: str) -> None:
    found = refused(INNER, COPY, f"{around}\n    t[0] = x[0]\n    {jump}\n", EXP)
    assert not isinstance(found, PartlyRead)


POINTERS = {
    "an integer": 'T.call_extern("float32", "f", T.reinterpret("int64", out.data), 0, 32)',
    "part of an integer": 'T.call_extern("float32", "f", T.reinterpret("int64", out.data) + 4)',
    "an address": 'T.call_extern("float32", "f", T.address_of(out[0]), 32)',
    "a pure call": 'T.call_pure_extern("float32", "f", T.address_of(out[0]), 0, 32)',
    "an access": 'T.call_extern("float32", "f", out.access_ptr("w"), 32)',
    "a number": 'T.Cast("float32", T.reinterpret("int64", out.data))',
}


@pytest.mark.parametrize("name", POINTERS)
def test_a_pointer_may_be_stored_through(name: str) -> None:
    found = refused(INNER, EXP, f"for i in range(8):\n    t[i] = {POINTERS[name]}")
    assert not isinstance(found, PartlyRead)


POINTER = 'T.call_extern("int32", "f", T.reinterpret("int64", out.data))'
OTHERS = {
    "an extent": f"""
for i in T.serial(8, annotations={{"unknown_key": 1}}):
    q = T.alloc_buffer(({POINTER},), "float32")
    q[0] = x[i]
    t[i] = q[0]
""",
    "a region": f"""
for i in T.serial(8, annotations={{"unknown_key": 1}}):
    with T.sblock("b"):
        T.reads()
        T.writes()
        m = T.match_buffer(x[{POINTER}:{POINTER} + 1], (1,), "float32", elem_offset=T.int32())
        t[i] = m[0]
""",
    "a bound pointer": 'p = T.bind(out.data)\nt[0] = T.call_extern("float32", "f", p)',
    "an assertion": 'if x[0] > T.float32(0):\n    t[0] = x[0]\n    assert x[1] > x[0], "no"',
    "an attribute": 'with T.attr(out.data, "storage_alignment", 1):\n    t[0] = x[0]',
    "a packed call": 'for i in range(8):\n    t[i] = x[i]\n    T.evaluate(T.call_packed("f", out))',
    "only its own memory": 'for i in T.serial(8, annotations={"unknown_key": 1}):\n'
    '    q = T.alloc_buffer((8,), "float32")\n'
    "    q[i] = x[i]",
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_else_a_statement_does_is_not_known(name: str) -> None:
    assert not isinstance(refused(INNER, EXP, OTHERS[name]), PartlyRead)


UNREAD = {
    "outside": "for i in range(8):\n    t[i + 8] = x[i]",
    "no end": "t[0] = T.float32(0)\nwhile t[0] < T.float32(8):\n    t[0] = x[0]\n    t[1] = t[0]",
    "numbers": 'for i in range(8):\n    t[i] = T.call_extern("float32", "f", x[i])',
    "a jump of its own": "for i in range(8):\n    if x[i] > T.float32(0):\n        break\n"
    "    t[i] = x[i]",
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_statement_without_readers_is_named_all_the_same(name: str) -> None:
    found = refused(INNER, EXP, UNREAD[name])
    assert isinstance(found, PartlyRead) and found.where.startswith("the buffer t")
    assert [s.name for s in found.steps] == ["relax.exp"]


def test_memory_of_its_own_and_views_are_understood_where_the_statement_is() -> None:
    func = program(
        INNER,
        VIEW,
        "for i in range(8):\n    w = T.decl_buffer((2, 4), data=t.data)\n"
        "    w[i // 4, i % 4] = T.exp(x[i])\n",
        "for i in range(8):\n    u[i] = T.tanh(t[i])",
    )
    found = op_infos(func)
    assert isinstance(found, Chain) and found.names == ("relax.exp", "relax.tanh")


KERNEL = 'for i in T.thread_binding(8, thread="threadIdx.x"):\n'


@pytest.mark.parametrize("scope", ["local", "shared"])
@pytest.mark.parametrize("second", [KERNEL, "for i in range(8):\n"])
def test_what_a_kernel_leaves_in_memory_of_its_own_is_not_read(scope: str, second: str) -> None:
    found = refused(
        f't = T.alloc_buffer((8,), "float32", scope="{scope}")\n',
        f"{KERNEL}    t[i] = T.exp(x[i])\n",
        f"{second}    out[i] = t[i]\n",
    )
    assert isinstance(found, PartlyRead) and not found.steps
    assert "before it is written" in found.reason
