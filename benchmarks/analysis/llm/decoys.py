"""Kernels of language models with one change each: none may get an answer that is wrong.

A decoy is a kernel with one change in its script, such as another order of the values in a word,
a group that ends one value later, another sign, or the other half of a rotated vector. A decoy
computes something other than its kernel: an interpreter that shares no code with the library runs
both on the same random inputs.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from benchmarks.analysis.llm.random_arguments import NotRun, chosen_sizes, random_inputs
from benchmarks.analysis.llm.read_prim_funcs import bare_name
from benchmarks.analysis.llm.run_answers import arguments, compare
from opinfo.analysis import Chain
from opinfo.analysis.chain import Chains
from opinfo.testing.mutants import edited, mutants
from opinfo.testing.strip import strip
from tests.common.interpret import Undefined
from tests.common.lockstep import execute
from tests.models.weights import Array

#: Words in the names of kernels of which decoys are made.
FAMILIES = {"dequantize": "dequantise", "rope": "rotary embedding", "kv_cache": "cache",
            "copy": "cache"}  # fmt: skip
#: Decoys of one kernel, changes that are tried for them, and elements that a run may compute.
LIMIT, TRIES, ELEMENTS = 70, 160, 10_000
#: Changes of a script that the mutants of any program do not have: a pattern and its replacement.
CHANGES: tuple[tuple[str, str], ...] = (
    (r"(v\d+ % T\.int64\((\d+)\)) \*", r"(T.int64(\2) - T.int64(1) - \1) *"),  # order in a word
    (r"(v\d+) (//|%) T\.int64\((\d+)\)", r"(\1 + T.int64(1)) \2 T.int64(\3)"),  # group off by one
    (r"(v\d+) (//|%) (\d+)\b", r"(\1 + 1) \2 \3"),
    (r" >> ", " << "),
    (r" & ", " | "),
    (r"\) - T", ") + T"),
    (r" - T\.float", " * T.float"),
    *(
        (r"T\.(uint32|float16|float32|int32)\((\d+)(\.0)?\)", rf"T.\1(\2\3 {change})")
        for change in ("+ 1", "- 1", "* 2", "// 2")
    ),
    (r"T\.int64\((\d+)\)", r"T.int64(\1 * 2)"),
    (r"T\.(float16|float32)\(-1\.0\)", r"T.\1(1.0)"),  # sign of the rotated half
    (r"(v\d+) < (\d+), (v\d+\[[^]]*\][^,]*), (v\d+\[[^]]*\])", r"\1 < \2, \4, \3"),  # its halves
    (r"T\.cos\(", "T.sin("),
    (r"T\.sin\(", "T.cos("),
    (r"\[(v\d+), (v\d+ // [^],]*)\]", r"[\2 % \1, \1]"),  # axis of the scale
    (r"(?<=[\[ ])(\d+)(?=[,\]])", r"1 - \1"),  # keys for values
    (r"(v\d+) (//|%) 16", r"\1 \2 8"),  # rows of a page
    (r" != -1", " != 0"),
    (r"(v\d+) \+ 16\b", r"\1 + 15"),
    (r"(v\d+) - 16\b", r"\1 - 15"),
    (r"\* 2 %", "* 3 %"),
    (r"T\.int64\((\d+)\)", r"T.int64(\1 // 2)"),
    (r"(v\d+) % (\d+)\b", r"(\2 - 1 - \1 % \2)"),  # rows of a page in reverse
    (r"(v\d+) % (\d+)\b", r"\1 % (\2 // 2)"),
    (r"\) \* (v\d+\[)", r") + \1"),  # the scale is a term
    (r"\) \+ T\.", ") - T."),  # the other direction of a rotation
    (r"T\.sin\((v\d+)\)", r"T.sin(-\1)"),
    (r"T\.(cos|sin)\((v\d+)\)", r"T.\1(\2 + \2)"),
    (r"(v\d+) ([+-]) (8|10|16)\b", r"\1 \2 \3 // 2"),  # another half, another head
    (r"(v\d+) < (\d+)\b", r"\1 < \2 // 2"),
    (r"\] = (v\d+\[[^\n]*\])\n", r"] = \1 + \1\n"),  # twice the element of a cache
)


@dataclass
class Decoys:
    """The decoys of one kernel.

    Attributes:
        kernel: Its model and name.
        family: What it computes.
        decoys: Changed kernels that compute something else.
        refused: Those without an answer for the whole kernel.
        answered: Those with the right answer, which is another operator or has other attributes.
        wrong: Those with a wrong answer: the change and the answer.
    """

    kernel: str
    family: str
    decoys: int = 0
    refused: int = 0
    answered: int = 0
    wrong: list[tuple[str, str]] = field(default_factory=list)


def kernels(mod: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the name, family and stripped PrimFunc of each kernel that decoys are made of."""
    for gvar, func in mod.functions_items():
        name = bare_name(gvar.name_hint)
        family = next((f for word, f in FAMILIES.items() if word in name), None)
        if "matmul" in name or not isinstance(func, tirx.PrimFunc):
            continue  # the sums of products take the interpreter too long
        if family and _elements(func) <= ELEMENTS:
            yield name, family, strip(func)


def _elements(func: Any) -> int:
    """The elements that its largest buffer has, with small numbers for symbolic sizes."""
    buffers = [p for p in func.params if is_buffer_var(p)]
    return max(
        int(np.prod([int(e) if isinstance(e, tirx.IntImm) else 4 for e in p.ty.shape]))
        for p in buffers
    )


def try_decoys(
    model: str, mod: Any, seen: set[int], limit: int = LIMIT, tries: int = TRIES
) -> list[Decoys]:
    """Make decoys of each kernel of a module that was not seen before, and analyse them."""
    rows = []
    for name, family, func in kernels(mod):
        key = tvm_ffi.structural_hash(func)
        truth = None if key in seen else Chains()(func)
        if isinstance(truth, Chain):
            seen.add(key)
            row = Decoys(f"{model}: {name}", family)
            _try(row, func, truth, limit, tries)
            rows.append(row)
    return rows


def _try(row: Decoys, func: Any, truth: Chain, limit: int, tries: int) -> None:
    given = _given(func, truth)
    expected = _results(func, given)
    for count, (change, mutant) in enumerate(changed(func)):
        if row.decoys == limit or count == tries:
            return
        if not _differs(_results(mutant, given), expected):
            continue
        row.decoys += 1
        answer = Chains()(strip(mutant))
        if not isinstance(answer, Chain):
            row.refused += 1
        elif (error := wrong(mutant, answer, truth)) is not None:
            row.wrong.append((change, f"{error}: {answer!r}"))
        else:
            row.answered += 1


def changed(func: Any) -> Iterator[tuple[str, Any]]:
    """Yield ``(change, PrimFunc)`` in a shuffled but reproducible order, each PrimFunc once."""
    text = func.script()
    body = text.index("def ")
    body = text.index("\n", body)
    edits = [
        (match, match.expand(new))
        for old, new in CHANGES
        for match in re.compile(old).finditer(text, body)
    ]
    random.Random(0).shuffle(edits)
    seen = {tvm_ffi.structural_hash(func)}
    for change, mutant in chain(_parsed(text, edits), mutants(func)):
        if (key := tvm_ffi.structural_hash(mutant)) not in seen:
            seen.add(key)
            yield change, mutant


def _parsed(text: str, edits: list[tuple[re.Match[str], str]]) -> Iterator[tuple[str, Any]]:
    changes = ((match.start(), match.end(), new) for match, new in edits)
    for (start, end, new), mutant in edited(text, changes):
        yield f"{text[start:end]!r} to {new!r}", mutant


def _given(func: Any, truth: Chain) -> list[Any]:
    """Arguments of a kernel; one index is -1 if the kernel allows it."""
    updated = [k for k in truth.inplace_indices if k >= 0]
    sizes, rng = chosen_sizes(func), np.random.default_rng(0)
    values = random_inputs(func, len(truth.outputs) - len(updated), sizes, rng)
    skipped = {k: _with_skipped(v) if v is not None else v for k, v in values.items()}
    given = arguments(func, sizes, skipped)
    return given if _results(func, given) is not None else arguments(func, sizes, values)


def _with_skipped(value: Array) -> Array:
    if value.ndim != 1 or str(value.dtype) not in ("int32", "int64"):
        return value
    return np.concatenate([value[:-1], np.array([-1], value.dtype)])


def _results(func: Any, given: list[Any]) -> list[Array] | None:
    try:
        return execute(func, given)
    except (Undefined, ArithmeticError, LookupError, ValueError, TypeError):
        return None


def _differs(got: list[Array] | None, expected: list[Array] | None) -> bool:
    """Whether both computed something, and not the same."""
    if got is None or expected is None:
        return False
    return not all(
        np.allclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True)
        for a, b in zip(got, expected, strict=True)
    )


def wrong(mutant: Any, answer: Chain, truth: Chain) -> str | None:
    """Return what is wrong with the answer for a decoy; None if nothing is."""
    if _claim(answer) == _claim(truth):
        return "the answer for the kernel"
    try:
        return compare(mutant, answer)
    except NotRun as error:
        return f"not run, {error}"


def _claim(chain: Chain) -> tuple[Any, ...]:
    """The operators of a chain with operands and attributes, without the names of variables."""
    steps = tuple((s.name, s.operands, repr(dict(s.attrs))) for s in chain.steps)
    return steps, chain.outputs, chain.inplace_indices
