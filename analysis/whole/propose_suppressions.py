"""Proposals for a PrimFunc that may be ``relax.vision.non_max_suppression``.

It calls an extern sort, and its stores depend on data. Each attribute is read where the operator's
lowering writes it; the result is compared as a whole, so a proposal may be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from ..lifting.tir.node import items
from ..proposal.proposal import Proposal
from ..proposal.undetermined import Undetermined
from ..support.ir.call_ops import op_name
from ..support.tvm_compat import TensorLoad, source_of
from ..terms.term import TensorVar, Var

NAME = "relax.vision.non_max_suppression"


def propose_suppressions(
    func: Any, params: Sequence[TensorVar | Var], written: Sequence[TensorVar]
) -> Iterator[Proposal]:
    """Yield the operators that a PrimFunc may be.

    Args:
        func: The PrimFunc.
        params: Its parameters.
        written: The parameters that it writes.
    """
    inputs = [p for p in params if isinstance(p, TensorVar) and p not in written]
    if [len(p.shape) for p in inputs] != [3, 1, 2] or not 1 <= len(written) <= 3:
        return
    places = tuple(p.position for p in inputs)
    body = _Body(func, func.params[places[0]])
    if body.score is None or body.coordinate is None:
        return
    soft = len(written) == 3
    common = {"coord_start": body.coordinate, "score_index": body.score, "id_index": body.label,
              "force_suppress": False, "return_indices": len(written) > 1}  # fmt: skip
    thresholds = sorted(body.thresholds) or [0.0]
    for most, top, iou in product(sorted(body.counts), sorted(body.stored), thresholds):
        for bottom in (False, True) if len(written) == 1 else (False,):
            for sigma, score in product(sorted(body.sigmas), thresholds) if soft else [(0.0, 0.0)]:
                attrs = {"max_output_size": most, "top_k": top, "iou_threshold": iou,
                         "invalid_to_bottom": bottom, "soft_nms_sigma": sigma,
                         "score_threshold": score}  # fmt: skip
                yield Proposal(NAME, places, {**common, **attrs}, undetermined=_unseen(soft))


def _unseen(soft: bool) -> tuple[Undetermined, ...]:
    reason = "only a soft suppression has a threshold of scores"
    return () if soft else (Undetermined("score_threshold", reason),)


class _Body:
    """The literals of a body in the places where the lowering has attributes.

    Attributes:
        score: The index at which the data are read before they are sorted.
        coordinate: The least index of which minima are taken.
        label: The index that is compared; -1 without one.
        counts: The literals to which a count is compared in a choice.
        stored: The integers that are stored.
        thresholds: The floats to which something is compared.
        sigmas: What the factors in exponentials are computed from.
    """

    def __init__(self, func: Any, data: Any) -> None:
        self.score: int | None = None
        self.coordinate: int | None = None
        self.label = -1
        self.counts, self.stored = {-1}, {-1}
        self.thresholds: set[float] = set()
        self.sigmas: set[float] = set()
        self.data = data
        body = func.body
        tvm_ffi.structural_walk(body, (TensorLoad, self._load))
        tvm_ffi.structural_walk(body, (tirx.Min, self._least))
        tvm_ffi.structural_walk(body, (tirx.EQ, self._equal))
        tvm_ffi.structural_walk(body, (tirx.BufferStore, self._store))
        tvm_ffi.structural_walk(body, (tirx.LT, lambda node: self._bound(node.b)))
        tvm_ffi.structural_walk(body, (tirx.LE, lambda node: self._bound(node.b)))
        tvm_ffi.structural_walk(body, (tirx.GT, lambda node: self._bound(node.b)))
        tvm_ffi.structural_walk(body, (tirx.GE, lambda node: self._bound(node.b)))
        tvm_ffi.structural_walk(body, (tvm.ir.Call, self._exponential))

    def _load(self, load: Any) -> None:
        last = _last(load)
        if last is not None and source_of(load).same_as(self.data):
            self.score = last

    def _least(self, node: Any) -> None:
        for side in (node.a, node.b):
            last = _last(side)
            if last is not None and (self.coordinate is None or last < self.coordinate):
                self.coordinate = last

    def _equal(self, node: Any) -> None:
        left, right = _last(node.a), _last(node.b)
        if left is not None and left == right:
            self.label = left

    def _store(self, store: Any) -> None:
        if isinstance(store.value, tirx.IntImm):
            self.stored.add(int(store.value))

    def _bound(self, literal: Any) -> None:
        if isinstance(literal, tirx.IntImm):
            self.counts.add(int(literal))
        number = literal.value if isinstance(literal, tirx.Cast) else literal
        if isinstance(number, tirx.FloatImm):
            self.thresholds.add(float(number.value))

    def _exponential(self, call: Any) -> None:
        if op_name(call) != "tirx.exp":
            return
        factors: list[float] = []
        tvm_ffi.structural_walk(call, (tirx.FloatImm, lambda x: factors.append(float(x.value))))
        self.sigmas |= {-0.5 / factor for factor in factors if factor < 0}


def _last(load: Any) -> int | None:
    """The last index of a load of rank 3 if it is a literal; None otherwise."""
    if not isinstance(load, TensorLoad):
        return None
    indices = items(load.indices)
    literal = len(indices) == 3 and isinstance(indices[-1], tirx.IntImm)
    return int(indices[-1]) if literal else None
