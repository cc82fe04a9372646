"""What an annotation may mean to TVM: only those that are known as neutral are passed over."""

from __future__ import annotations

from typing import Any

import pytest
import tvm

from opinfo.analysis import Chain, OpInfo, Refusal, op_info, op_infos

HEADER = "# from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n"
LOOP = """
    for i in T.serial(8, annotations={{"{key}": 1}}):
        out[i] = T.exp(x[i])
"""
BLOCK = """
    for i in range(8):
        with T.sblock("b"):
            v = T.axis.spatial(8, i)
            T.sblock_attr({{"{key}": 1}})
            out[v] = T.exp(x[v])
"""
ROOT = """
    with T.sblock("root"):
        T.sblock_attr({{"{key}": 1}})
        for i in range(8):
            out[i] = T.exp(x[i])
"""
STATEMENT = """
    with T.attr(0, "{key}", 1):
        for i in range(8):
            out[i] = T.exp(x[i])
"""
PLACES = {"For i": LOOP, "SBlock b": BLOCK, "SBlock root": ROOT, "AttrStmt": STATEMENT}
#: Each changes what is computed, or may: by a pass of TVM, or because nobody knows the key.
MEANINGFUL = (
    "pragma_debug_skip_region",
    "pragma_import_llvm",
    "hand_threaded",
    "software_pipeline_order",
    "meta_schedule.layout_rewrite_preproc",
    "permuted_layout",
    "somebody_elses",
)


def program(body: str, head: str = 'x: T.Buffer((8,), "float32")') -> Any:
    text = f'def main({head}, out: T.Buffer((8,), "float32")):\n' + body.lstrip("\n")
    return tvm.script.from_source(HEADER + text)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("key", MEANINGFUL)
def test_a_key_that_is_not_known_is_refused(key: str, where: str) -> None:
    func = program(PLACES[where].format(key=key))
    wanted = f"unsupported annotation {key}"
    one, chain = op_info(func), op_infos(func)
    assert isinstance(one, Refusal) and (one.reason, one.where) == (wanted, where)
    assert isinstance(chain, Refusal) and wanted in chain.reason


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("key", ["pragma_auto_unroll_max_step", "pragma_unroll_explicit"])
def test_how_a_loop_is_unrolled_is_neutral(key: str, where: str) -> None:
    func = program(PLACES[where].format(key=key))
    info, chain = op_info(func), op_infos(func)
    assert isinstance(info, OpInfo) and info.name == "relax.exp", info
    assert isinstance(chain, Chain) and len(chain.steps) == 1, chain


def test_a_layout_of_a_buffer_is_refused() -> None:
    """The elements of such a buffer are two apart."""
    head = 'x: T.Buffer((8,), "float32", layout=T.TileLayout(T.S[(8,):({},)]))'
    body = "    for i in range(8):\n        out[i] = T.exp(x[i])\n"
    infos = [
        op_info(tvm.script.from_source(HEADER.replace("(s_tir=True)", "") + text))
        for text in (
            f'def main({head.format(k)}, out: T.Buffer((8,), "float32")):\n{body}' for k in "12"
        )
    ]
    assert isinstance(infos[0], OpInfo) and infos[0].name == "relax.exp"
    assert isinstance(infos[1], Refusal) and "non-trivial layout" in infos[1].reason


def test_what_is_assumed_is_said() -> None:
    func = program(
        """
    for i in range(8):
        T.evaluate(T.assume(x[i] > T.float32(0)))
    for i in range(8):
        out[i] = T.exp(x[i])
"""
    )
    info, chain = op_info(func), op_infos(func)
    assert isinstance(info, OpInfo) and isinstance(chain, Chain)
    for certificate in (info.certificate, chain.steps[0].info.certificate):
        assert "what T.assume says holds" in certificate.assumptions


@pytest.mark.parametrize(
    "statement", ['T.evaluate(T.call_extern("int32", "f", x.data))', 'assert x[0] > 0, "positive"']
)
def test_a_statement_that_stores_nothing_is_not_passed_over(statement: str) -> None:
    """``op_infos`` said exp for a function that calls another one, or stops, before it."""
    func = program(f"    {statement}\n    for i in range(8):\n        out[i] = T.exp(x[i])\n")
    assert isinstance(op_info(func), Refusal)
    assert isinstance(op_infos(func), Refusal)


def test_a_statement_that_gives_a_pointer_away_is_not_passed_over() -> None:
    func = program(
        """
    for i in range(8):
        out[i] = T.call_extern("float32", "f", x.data)
    for i in range(8):
        out[i] = T.exp(x[i])
"""
    )
    assert isinstance(op_infos(func), Refusal)


@pytest.mark.parametrize(("address", "neutral"), [("[]", True), ("[64]", False)])
def test_only_an_allocation_without_an_address_is_anywhere(address: str, neutral: bool) -> None:
    """TVM's lowering of blocks writes an empty address at each allocation."""
    func = program(f"""
    t = T.alloc_buffer((8,), "float32", annotations={{"buffer_allocated_addr": {address}}})
    for i in range(8):
        t[i] = T.exp(x[i])
    for i in range(8):
        out[i] = t[i] + T.float32(1)
""")
    found = op_infos(func)
    assert isinstance(found, Chain) == neutral
    if not neutral:
        assert isinstance(found, Refusal) and "buffer_allocated_addr" in found.reason
