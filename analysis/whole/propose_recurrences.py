"""Proposals for a PrimFunc that may be a recurrent layer.

A loop that carries its state has no closed term for an element, so it cannot be lifted. The shapes
of the parameters and the functions in the body leave few operators. Each is lowered and compared
with the PrimFunc as a whole, so a proposal may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..proposal.proposal import Proposal
from ..recurrent.cells import DEFAULTS, GATES
from ..recurrent.recurrence_operator import NAME, RESULTS
from ..terms.term import TensorVar, Var

#: Parameters that are written: the results and two buffers of work memory.
WRITTEN = RESULTS + 2
#: The calls and nodes that an activation is written with; other activations have none of them.
_SIGNS = {"Sigmoid": "tirx.sigmoid", "Tanh": "tirx.tanh", "Softsign": "tirx.fabs",
          "Relu": "Max", "HardSigmoid": "Min", "LeakyRelu": "Select"}  # fmt: skip


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
    if len(written) != WRITTEN or len(inputs) < 4 or [*map(len, shapes[:4])] != [3, 2, 1, 2]:
        return
    hidden, width = (e.const for e in shapes[1])
    if not hidden or not width:
        return
    present = _present(func)
    for cell in (c for c, gates in GATES.items() if gates * hidden == width):
        for attrs in _attributes(cell, shapes[4:], present):
            yield Proposal(NAME, tuple(inputs), {"cell": cell, **attrs})


def _present(func: Any) -> set[str]:
    """Return the names of the calls and the kinds of the operations in a body."""
    names: set[str] = set()
    body = func.body
    tvm_ffi.structural_walk(
        body, (tvm.ir.Call, lambda call: names.add(str(getattr(call.op, "name", ""))))
    )
    for kind in (tirx.Max, tirx.Min, tirx.Select):
        tvm_ffi.structural_walk(body, (kind, lambda node: names.add(type(node).__name__)))
    return names


def _attributes(
    cell: str, rest: Sequence[Sequence[Any]], present: set[str]
) -> Iterator[dict[str, Any]]:
    """Yield the attributes that fit a cell, its further operands and what its body has."""
    ranks = [len(shape) for shape in rest[1 if cell == "LSTM" else 0 :]]
    if len(rest) < (cell == "LSTM") or len(ranks) > 2 or any(r != 1 for r in ranks):
        return
    quantized = "tirx.nearbyint" in present
    allowed = [name for name, sign in _SIGNS.items() if sign in present]
    usual = DEFAULTS[cell]
    choices = sorted(product(allowed, repeat=len(usual)), key=lambda names: names != usual)
    options = {
        "reverse": (False, True),
        "linear_before_reset": (False, True) if cell == "GRU" else (False,),
        "input_forget": (False, True) if cell == "LSTM" else (False,),
    }
    flags = [(False, False), (True, False), (False, True), (True, True)]
    for names in choices:
        for values in product(*options.values()):
            for lengths, peepholes in (f for f in flags if sum(f) == len(ranks)):
                if peepholes and cell != "LSTM":
                    continue
                named = dict(zip(options, values, strict=True))
                yield {"activations": names, **named, "lengths": lengths, "peepholes": peepholes,
                       "quantized": quantized}  # fmt: skip
