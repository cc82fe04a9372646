"""Changed rotary embeddings: none is certified, unless it computes the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx

from opinfo.analysis import OpInfo, Refusal
from opinfo.analysis.answer.recover import lift_or_refuse, recover_direct
from opinfo.analysis.composites.positions.rotary import apply_rotary_embedding
from opinfo.testing.mutants import changes_of, edited, parsed

from ...common.interpret import Undefined, compiled
from ...part import OneIn
from .rotary_cases import DATA, FORMS, INPUTS, X, module, operators

#: Changes of every place in the text where they apply.
CHANGES = [
    (r"T\.cos", "T.sin"), (r"T\.sin", "T.cos"), (r" \+ ", " - "), (r" < ", " <= "),
    (r"-1\.0", "1.0"), (r"-1\.0", "-2.0"), (r"10000\.0", "1000.0"), (r"d \* 2", "d * 3"),
    (r"d \* 2", "(d * 2 + 1)"), (r"d \* 2", "h * 2"), (r"2 \* \(d // 2\)", "d"),
    (r"d \+ 4", "d + 3"), (r"d \+ 4", "(d + 5) % 8"), (r"d - 4", "d - 3"),
    (r"d - 4", "(d + 3) % 8"), (r"d \+ 1", "d + 2"), (r"d - 1", "d"),
    (r"d % 2 == 0", "d % 2 == 1"), (r"d < 4", "d < 3"), (r"d < 4", "d < 5"), (r"d < 4", "d >= 4"),
    (r"% 8", "% 4"), (r"% 4", "% 8"), (r"8\.0", "4.0"), (r"4\.0", "8.0"),
    (r"position_map\[s\]", "position_map[2 - s]"),
    (r"position_map\[s\]", "(position_map[s] + 1)"), (r"position_map\[s\]", "s"),
    (r"s, h, d\]\)", "s, h, 7 - d])"), (r"qkv\[s, h", "qkv[s, h - 1"), (r"h - 4", "5 - h"),
    (r"apply_rope > T\.int64\(0\)", "apply_rope >= T.int64(0)"),
    (r"apply_rope > T\.int64\(0\)", "apply_rope > T.int64(1)"), (r" / ", " * "),
    (r"T\.max", "T.min"), (r"T\.min", "T.max"), (r"0\.125", "0.25"), (r"0\.33", "0.34"),
]  # fmt: skip


#: Of how many changes the suite tries one.
EVERY = 6


def _changed(func: Any, one_in: OneIn, branches: bool) -> Iterator[tuple[str, Any]]:
    """Mutants; all branches have one formula, so it may be enough to change the first one."""
    text = func.script()
    body = text.index("T.writes")
    last = len(text) if branches else text.index("else:", body)
    changes = [(body + match.start(), body + match.end(), new) for old, new in CHANGES
               for match in re.finditer(old, text[body:last])]  # fmt: skip
    changes += changes_of(text, last)
    for (start, end, new), mutant in edited(text, one_in(EVERY, changes)):
        yield f"{text[start:end]} to {new} at {start}", mutant


def _results(func: Any, given: Any) -> list[Any] | None:
    try:
        return [a for values, sizes in given for a in compiled(func)(values, sizes)]
    except (Undefined, ArithmeticError, LookupError, ValueError, TypeError):
        return None


def _same(a: Any, b: Any) -> bool:
    return all(np.allclose(x, y, rtol=1e-5, atol=1e-7) for x, y in zip(a, b, strict=True))


def _answer(func: Any) -> OpInfo | Refusal:
    """The answer over the PrimFunc's own buffers, without a search for layouts."""
    expression = lift_or_refuse(func)
    return expression if isinstance(expression, Refusal) else recover_direct(expression, func)


def _tried(
    original: Any, one_in: OneIn, given: Any = INPUTS, branches: bool = True
) -> tuple[int, list[str]]:
    """The number of mutants that differ, and those that are recognised wrongly."""
    expected, seen = _results(original, given), set[int]()
    different, wrong = 0, []
    for change, mutant in _changed(original, one_in, branches):
        key = tvm_ffi.structural_hash(mutant)
        got = None if key in seen else _results(mutant, given)
        seen.add(key)
        if got is None or _same(got, expected):
            continue
        different += 1
        info = _answer(mutant)
        if isinstance(info, OpInfo):
            answer = [a for v, s in given for a in operators(mutant, info, v, s)]
            wrong += [] if _same(got, answer) else [f"{change}: {info}"]
    return different, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ["neox", "gptj", "gptj partial", "llama3", "yarn"])
def test_no_mutant_is_certified(name: str, one_in: OneIn) -> None:
    original = FORMS[name][0]()
    different, wrong = _tried(original, one_in, branches=name == "neox")
    assert not wrong
    assert different >= one_in.least(EVERY, 30)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["neox", "gptj"])
def test_no_mutant_with_tables_is_certified(style: str, one_in: OneIn) -> None:
    tables = [np.random.default_rng(k).uniform(-1, 1, (3, 1, 8)) for k in range(2)]
    operands = [X, *(t.astype("float32") for t in tables)]
    built = module(apply_rotary_embedding, operands, {"rotary_dim": 8, "style": style})
    legal = relax.transform.LegalizeOps()(built)
    (func,) = (f for f in legal.functions.values() if isinstance(f, tirx.PrimFunc))
    different, wrong = _tried(parsed(func.script()), one_in, [([DATA[0], *tables], {})])
    assert not wrong
    assert different >= one_in.least(EVERY, 10)
