"""What is known around a statement or a formula that is not understood is named."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import from_source

from opinfo.analysis import PartlyRead, Refusal, Step, StepResult, op_infos

#: A step of neighbours, whose iterations race, in a block with what is before and after it.
GROUPED = """
@T.prim_func(s_tir=True)
def main(p: T.handle, q: T.handle):
    n = T.int64()
    x = T.match_buffer(p, (n, 8), "float32")
    out = T.match_buffer(q, (n, 8), "float32")
    with T.sblock("group"):
        T.reads()
        T.writes()
        if {condition}:
            y = T.alloc_buffer((n, 8), "float32")
            for i, j in T.grid(n, 8):
                y[i, j] = T.tanh(x[i, j])
            for i in T.parallel(n):
                for j in range(8):
                    y[i, j] = y[n - 1 - i, j] + y[i, 7 - j]
            for i, j in T.grid(n, 8):
                out[i, j] = T.exp(y[i, j])
            for i, j in T.grid(n, 8):
                out[i, j] = out[i, j] {after}
"""


def grouped(condition: str = "n > 0", after: str = "+ x[i, j]") -> Any:
    return op_infos(from_source(GROUPED.format(condition=condition, after=after)))


def test_a_block_of_statements_is_read_one_by_one() -> None:
    chain = grouped()
    assert isinstance(chain, PartlyRead), chain
    names = [p.name if isinstance(p, Step) else "opaque" for p in chain.parts]
    assert names[:2] == ["relax.tanh", "opaque"] and "relax.exp" in names, chain
    (opaque,) = (p for p in chain.parts if not isinstance(p, Step))
    assert "two or more iterations before" in opaque.reason and opaque.reads


def test_a_branch_that_may_not_be_taken_stays_whole() -> None:
    chain = grouped("n > 1")
    assert isinstance(chain, Refusal) and not getattr(chain, "steps", ()), chain


#: The sum of what a statement that is not understood stores and a formula without an operator.
UPDATED = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((16, 8), "float32"), w: T.Buffer((8, 8), "float32"),
         out: T.Buffer((16, 8), "float32")):
    for i in T.parallel(16):
        for j in range(8):
            out[i, j] = x[i, j]
            out[i, j] = out[15 - i, j] + out[i, 7 - j]
    for i, j in T.grid(16, 8):
        out[i, j] = {value}
"""


@pytest.mark.parametrize("value, names", [
    ("out[i, j] + T.if_then_else(i > 3, x[i // 4 - 1, j], T.float32(0))",
     ["opaque", "opaque", "relax.add"]),
    ("out[i, j] + T.exp(x[i, j])", ["opaque", "relax.exp", "relax.add"]),
    ("T.exp(out[i, j])", ["opaque", "relax.exp"]),
])  # fmt: skip
def test_an_update_reads_the_result_of_an_opaque_statement(value: str, names: list[str]) -> None:
    chain = op_infos(from_source(UPDATED.format(value=value)))
    assert isinstance(chain, PartlyRead), chain
    found = [p.name if isinstance(p, Step) else "opaque" for p in chain.parts]
    assert found == names, chain
    last = chain.parts[-1]
    assert isinstance(last, Step) and any(o in last.operands for o in _results(chain, 0)), chain
    assert chain.outputs[0].step == len(names) - 1


def _results(chain: PartlyRead, step: int) -> list[Any]:
    return [v for p in chain.parts if isinstance(p, Step) for v in p.buffers
            if not isinstance(v, int) and v.step == step]  # fmt: skip


def test_an_opaque_statement_reads_what_it_does_not_store() -> None:
    chain = op_infos(from_source(UPDATED.format(value="T.exp(out[i, j])").replace(
        "    for i in T.parallel(16):", "    for i, j in T.grid(16, 8):\n"
        "        out[i, j] = T.tanh(x[i, j])\n    for i in T.parallel(8):").replace(
        "            out[i, j] = x[i, j]\n", "")))  # fmt: skip
    assert isinstance(chain, PartlyRead), chain
    first, opaque, last = chain.parts
    assert isinstance(first, Step) and first.name == "relax.tanh"
    assert not isinstance(opaque, Step) and list(opaque.reads) == [StepResult(0)]
    assert isinstance(last, Step) and last.name == "relax.exp"
