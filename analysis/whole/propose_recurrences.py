"""Proposals for a PrimFunc that may be a recurrent layer, with dynamic quantisation or without.

A loop that carries its state has no closed term for an element, so it cannot be lifted. The shapes
of the parameters and the functions in the body leave few operators. Each is lowered and compared
with the PrimFunc as a whole, so a proposal may be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..proposal.proposal import Proposal
from ..recurrent.cells import DEFAULTS, GATES
from ..recurrent.quantized_lstm_operator import NAME as QUANTIZED
from ..recurrent.recurrence_operator import NAME as RECURRENCE
from ..support.ir.call_ops import op_name
from ..terms.term import TensorVar, Var

#: The ranks of the operands before the lengths and the peepholes, and the number of parameters that
#: are written: three results and work memory.
_RANKS = {QUANTIZED: (3, 2, 1, 1, 2, 1, 1, 1, 2, 2), RECURRENCE: (3, 2, 1, 2)}
_WRITTEN = {QUANTIZED: 8, RECURRENCE: 5}
#: The operand with the recurrent weights.
_WEIGHTS = {QUANTIZED: 4, RECURRENCE: 1}
#: How many maxima there are without those of activations.
_MAXIMA = {QUANTIZED: 6, RECURRENCE: 0}
#: The flag that only one kind of cell has.
_FLAGS = {"LSTM": "input_forget", "GRU": "linear_before_reset"}
#: The calls, nodes and numbers that an activation is written with; others have none of them.
_SIGNS = {"Sigmoid": "tirx.sigmoid", "Tanh": "tirx.tanh", "Softsign": "tirx.fabs", "Relu": "Max",
          "HardSigmoid": "0.2", "LeakyRelu": "0.01"}  # fmt: skip


def propose_recurrences(
    func: Any, params: Sequence[TensorVar | Var], written: Sequence[TensorVar]
) -> Iterator[Proposal]:
    """Yield the operators that a PrimFunc may be, the usual ones first.

    Args:
        func: The PrimFunc.
        params: Its parameters.
        written: The parameters that it writes.
    """
    inputs = [k for k, p in enumerate(params) if isinstance(p, TensorVar) and p not in written]
    shapes = [getattr(params[k], "shape", ()) for k in inputs]
    for name, count in _WRITTEN.items():
        ranks = tuple(map(len, shapes[: len(_RANKS[name])]))
        if len(written) == count and ranks == _RANKS[name]:
            present = _present(func) - Counter({"Max": _MAXIMA[name]})
            for attrs in _attributes(name, shapes, set(present)):
                yield Proposal(name, tuple(inputs), attrs)


def _present(func: Any) -> Counter[str]:
    """Return how often a body has each call and number, and how many maxima it has."""
    names: Counter[str] = Counter()
    body = func.body
    tvm_ffi.structural_walk(body, (tvm.ir.Call, lambda call: names.update([op_name(call)])))
    tvm_ffi.structural_walk(
        body, (tirx.FloatImm, lambda x: names.update([f"{float(x.value):.6g}"]))
    )
    tvm_ffi.structural_walk(body, (tirx.Max, lambda node: names.update(["Max"])))
    return names


def _attributes(
    name: str, shapes: Sequence[Sequence[Any]], present: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the attributes that fit an operator's operands and what its body has."""
    hidden, width = (e.const for e in shapes[_WEIGHTS[name]])
    rest = shapes[len(_RANKS[name]) :]
    if not hidden or not width:
        return
    if name == QUANTIZED:
        if GATES["LSTM"] * hidden == width:
            yield from _cells("LSTM", rest, present)
        return
    for cell in (c for c, gates in GATES.items() if gates * hidden == width):
        has_state = bool(rest) and len(rest[0]) == 2
        if has_state == (cell == "LSTM"):
            for attrs in _cells(cell, rest[has_state:], present):
                yield {"cell": cell, **dict.fromkeys(_FLAGS.values(), False), **attrs}


def _cells(cell: str, rest: Sequence[Sequence[Any]], present: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the attributes of a cell that has these further operands."""
    if len(rest) > 2 or any(len(shape) != 1 for shape in rest):
        return
    allowed = [name for name, sign in _SIGNS.items() if sign in present]
    usual = DEFAULTS[cell]
    names = ["reverse", *([_FLAGS[cell]] if cell in _FLAGS else [])]
    operands = [pair for pair in product((False, True), repeat=2) if sum(pair) == len(rest)]
    choices = product(
        product(allowed, repeat=len(usual)), product((False, True), repeat=len(names))
    )
    for activations, flags in sorted(choices, key=lambda x: (x[0] != usual) + sum(x[1])):
        for peepholes, lengths in operands:
            if not peepholes or cell == "LSTM":
                yield {"activations": activations, **dict(zip(names, flags, strict=True)),
                       "lengths": lengths, "peepholes": peepholes}  # fmt: skip
