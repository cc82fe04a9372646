"""How the PrimFuncs of one module are read: answered, read in part, refused; each answer is run."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm_ffi
from tvm import tirx

from benchmarks.analysis.llm.random_arguments import NotRun
from benchmarks.analysis.llm.run_answers import compare
from opinfo.analysis import Chain, PartlyRead, Step
from opinfo.analysis.chain import Chains
from opinfo.analysis.composites.grouped import DEQUANTIZE
from opinfo.analysis.composites.norms import ADD_RMS_NORM
from opinfo.analysis.composites.positions.long_rotary import LONG
from opinfo.analysis.composites.positions.rotary import ROTARY, TABLES
from opinfo.analysis.composites.products import TRANSPOSED_MATMUL
from opinfo.analysis.composites.sampling import SOFTMAX
from opinfo.testing.strip import strip

PRODUCTS = frozenset({"relax.matmul", TRANSPOSED_MATMUL, "relax.einsum"})
#: What a PrimFunc computes by a word in its name, which opinfo does not see.
NAMED: dict[str, frozenset[str]] = {
    "dequantize": frozenset({DEQUANTIZE}),
    "matmul": PRODUCTS,
    "gemm": PRODUCTS,
    "gemv": PRODUCTS,
    "rms_norm": frozenset({"relax.nn.rms_norm", ADD_RMS_NORM}),
    "add_norm": frozenset({ADD_RMS_NORM}),
    "layer_norm": frozenset({"relax.nn.layer_norm"}),
    "rope": frozenset({ROTARY, TABLES, LONG}),
    "softmax": frozenset({"relax.nn.softmax", SOFTMAX}),
}


@dataclass
class Reading:
    """The PrimFuncs of one module.

    Attributes:
        phase: The phase of the pipeline.
        functions: The number of PrimFuncs.
        answered: Those with a chain of operators.
        partly: Those read in part, with each operator of `NAMED` that their name says.
        seconds: CPU seconds of all analyses.
        slowest: CPU seconds of the slowest one.
        run: Answers that were run.
        not_run: PrimFuncs that cannot be run, with the reason.
        wrong: Answers that compute something else.
        refused: The others, with the reason.
    """

    phase: str
    functions: int = 0
    answered: int = 0
    partly: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    run: int = 0
    not_run: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)


class Oracle:
    """Whether answers compute what their PrimFuncs do; equal pairs are run once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], str | NotRun | None] = {}

    def __call__(self, func: Any, chain: Chain) -> str | None:
        """Return the difference, or None. Raises `NotRun`."""
        key = (tvm_ffi.structural_hash(func), repr(chain))
        if key not in self._known:
            try:
                self._known[key] = compare(func, chain)
            except NotRun as error:
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, NotRun):
            raise found
        return found


def read(mod: Any, phase: str, oracle: Oracle) -> Reading:
    """Analyse each PrimFunc of a module, without its names, and run each answer."""
    row, chains = Reading(phase), Chains()
    for gvar, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc):
            continue
        bare = strip(func)
        start = time.process_time()
        chain = chains(bare)
        spent = time.process_time() - start
        row.functions += 1
        row.seconds += spent
        row.slowest = max(row.slowest, spent)
        _count(row, gvar.name_hint, bare, chain, oracle)
    return row


def _count(row: Reading, name: str, func: Any, chain: Any, oracle: Oracle) -> None:
    missing = sorted(unnamed(name, getattr(chain, "steps", ())))
    if isinstance(chain, Chain):
        row.answered += 1
        if missing:
            row.wrong.append((name, f"read without {', '.join(missing)}: {chain.names}"))
        try:
            difference = oracle(func, chain)
        except NotRun as error:
            row.not_run.append((name, str(error)))
            return
        row.run += 1
        if difference is not None:
            row.wrong.append((name, f"{difference}: {chain!r}"))
    elif isinstance(chain, PartlyRead) and chain.steps and not missing:
        row.partly += 1
    else:
        row.refused.append((name, chain.reason))


def unnamed(name: str, steps: tuple[Step, ...]) -> Iterator[str]:
    """Yield the words of a PrimFunc's name for which no step has the operator."""
    known = {step.operator.name for step in steps}
    for word, operators in NAMED.items():
        if word in name and not operators & known:
            yield word


def bare_name(name: str) -> str:
    """Return a PrimFunc's name without the numbers that make it unique."""
    return re.sub(r"(?<=[a-z_])\d+(?=_|$)", "", name)


def grouped(rows: list[tuple[str, str]]) -> list[tuple[str, int, str]]:
    """Return reasons with their counts and names, the most frequent first."""
    rows = [(name, re.sub(r"\bv\d+\b", "v", reason)) for name, reason in rows]  # of stripped names
    counts = Counter(reason for _, reason in rows)
    names: dict[str, set[str]] = {}
    for name, reason in rows:
        names.setdefault(reason, set()).add(bare_name(name))
    return [(r, n, ", ".join(f"`{x}`" for x in sorted(names[r]))) for r, n in counts.most_common()]
