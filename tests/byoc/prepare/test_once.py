"""What is there already is not made again, where it can be had."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relax
from tvm.ir import Op
from tvm.script import from_source

from opinfo.byoc.codegen.deduplicate import deduplicate

RELU = Op.get("relax.nn.relu")
HEAD = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((4,), "float32"):
"""
#: Before and after.
CASES = {
    "block": ("""
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(x)
            y = R.add(a, b)
            R.output(y)
        return y
""", """
        with R.dataflow():
            a = R.nn.relu(x)
            y = R.add(a, a)
            R.output(y)
        return y
"""),
    "given": ("""
        with R.dataflow():
            a = R.nn.relu(x)
            y = R.nn.relu(x)
            z = R.add(a, y)
            R.output(y, z)
        return R.add(y, z)
""", None),
    "blocks": ("""
        with R.dataflow():
            a = R.nn.relu(x)
            y = R.exp(a)
            R.output(y)
        e = R.exp(y)
        with R.dataflow():
            b = R.nn.relu(x)
            z = R.add(b, e)
            R.output(z)
        return z
""", None),
    "branches": ("""
        if c:
            a = R.nn.relu(x)
            b = R.nn.relu(x)
            y = R.add(a, b)
        else:
            d = R.nn.relu(x)
            y = R.exp(d)
        e = R.nn.relu(x)
        return R.add(e, y)
""", """
        if c:
            a = R.nn.relu(x)
            y = R.add(a, a)
        else:
            d = R.nn.relu(x)
            y = R.exp(d)
        e = R.nn.relu(x)
        return R.add(e, y)
"""),
    "outside": ("""
        a = R.nn.relu(x)
        if c:
            b = R.nn.relu(x)
            y = R.exp(b)
        else:
            y = R.nn.relu(x)
        return R.add(a, y)
""", """
        a = R.nn.relu(x)
        if c:
            y = R.exp(a)
        else:
            y = a
        return R.add(a, y)
"""),
}  # fmt: skip


def key(value: Any) -> tuple[Any, ...] | None:
    if not (isinstance(value, relax.Call) and value.op == RELU):
        return None
    return (value.args[0].__chandle__(),)


@pytest.mark.parametrize("name", CASES)
def test_a_value_is_made_once_where_it_can_be_had(name: str) -> None:
    before, after = (None if t is None else from_source(HEAD + t[1:]) for t in CASES[name])
    kept = from_source(HEAD + CASES[name][0][1:])
    tvm.ir.assert_structural_equal(deduplicate(before, key), after or kept)
    tvm.ir.assert_structural_equal(before, kept)
