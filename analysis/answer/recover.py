"""``op_info``: lift, recognise, certify."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import tirx

from ..certify.certify import PROPOSE, certify, lowers_to
from ..certify.structural_equality import ByStructure
from ..index_map.maps.to_terms import Unsupported
from ..lifting.effects.tensor_expression import TensorExpression
from ..lifting.lift import lift
from ..lifting.tir.from_tir import Unliftable
from ..proposal.answer_values import literals, variables
from ..proposal.proposal import Constant, Proposal
from ..real import TooLarge, idiomatic, real
from ..recognise import recognisers
from ..registry.call_recogniser import RecogniserFailure, attempt, proposals
from ..registry.registry import Recogniser
from ..results.op_info import (
    Answer,
    Certificate,
    LayoutNormalised,
    OpInfo,
    Refusal,
    operator,
    over_variables,
)
from ..terms.term import TensorVar, Var
from ..terms.traversal import subterms
from ..terms.work import Exhausted, budget, spend
from ..undo_layouts import relayings
from ..undo_layouts.logical_answer import expressed, normalised
from ..undo_layouts.places import as_they_are
from .fault import fault
from .kind import pattern_kind


def op_info(func: Any, *, alternatives: bool = False, tested: bool = False) -> OpInfo | Refusal:
    """Return the operator that a PrimFunc computes on its own buffers, with a certificate.

    Only the body of `func` is read: no name, attribute or annotation.

    Args:
        func: A `tirx.PrimFunc`.
        alternatives: Certify the other operators that compute the same, too.
        tested: Accept an operator that is only equal at random points.

    Returns:
        The operator, or a `Refusal` with the reason. An operator over other buffers than the
        PrimFunc's is returned by `layout_normalised`.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    found = analyse(func, alternatives=alternatives, tested=tested).of(func).info
    if not isinstance(found, LayoutNormalised):
        return found
    return Refusal(
        f"no operator has these buffers: it is {found.logical.name} with "
        + ", ".join(f"%{k} at {text}" for k, text in enumerate(found.places) if text),
        "opinfo.analysis.layout_normalised(func) is that reading",
    )


def layout_normalised(func: Any, *, alternatives: bool = False) -> LayoutNormalised | Refusal:
    """Return the operator that a PrimFunc computes over logical buffers, and how its buffers lie.

    This is not what ``op(*operands, **attrs)`` computes on the PrimFunc's own buffers, unless all
    of them are the logical ones.

    Args:
        func: A `tirx.PrimFunc`; only its body is read.
        alternatives: Certify the other operators that compute the same, too.

    Returns:
        The operator and the layouts, or a `Refusal` with the reason.

    Raises:
        TypeError: `func` is not a PrimFunc.
    """
    found = analyse(func, alternatives=alternatives)
    info = found.info
    if isinstance(info, OpInfo):
        own = LayoutNormalised(info, as_they_are(found.params), info.layouts)
        found = replace(found, info=info.relayout or own)
    info = found.of(func).info
    assert not isinstance(info, OpInfo)
    return info


@dataclass(frozen=True)
class Recovered:
    """An answer, the parameters that its attributes are over, and which of them are written."""

    info: Answer
    params: tuple[TensorVar | Var, ...] = ()
    outputs: tuple[int, ...] = ()

    @property
    def operator(self) -> OpInfo | None:
        """The operator that is computed, over whatever layouts of the buffers."""
        return operator(self.info)

    def of(self, func: Any) -> Recovered:
        """The same with dimensions over the variables of a PrimFunc, which is structurally equal.

        Answers are remembered by structure: what leaves the analysis is about one PrimFunc.
        """
        if isinstance(self.info, Refusal):
            return self
        try:
            info = over_variables(self.info, partial(variables, self.params, func))
        except Unsupported as e:
            return replace(self, info=Refusal(f"a dimension has no expression: {e}"))
        except Exception as e:
            return replace(self, info=fault(e))
        return self if info is self.info else replace(self, info=info)


def analyse(func: Any, *, alternatives: bool = False, tested: bool = False) -> Recovered:
    """`op_info` together with the lifted parameters."""
    with budget():
        lifted = understood(func)
        if isinstance(lifted, Refusal):
            return Recovered(lifted)
        return recovered(lifted, func, alternatives=alternatives, tested=tested)


def understood(func: Any) -> TensorExpression | Refusal:
    """What a PrimFunc computes, or why it is not understood."""
    if not isinstance(func, tirx.PrimFunc):
        raise TypeError(f"op_info: expected a tvm.tirx.PrimFunc, got {type(func).__name__}")
    try:
        with budget():
            return lift(func)
    except Unliftable as e:
        return Refusal(e.reason, e.where)
    except Exhausted as e:
        return Refusal(str(e))
    except RecursionError:
        return Refusal("the compute is nested too deeply")
    except Exception as e:
        return fault(e)


def recovered(
    lifted: TensorExpression, func: Any, *, alternatives: bool = False, tested: bool = False
) -> Recovered:
    """`analyse` of what was lifted already."""
    if not lifted.outputs:
        return Recovered(Refusal("the function writes no parameter"))
    try:
        with budget():
            found = recover(lifted, func, alternatives)
            if tested and isinstance(found, Refusal):
                found = _candidates(lifted, func, alternatives, tested=True)
    except Exhausted as e:
        found = Refusal(str(e))
    except Exception as e:
        found = fault(e)
    return Recovered(found, lifted.params, tuple(c.out.position for c in lifted.outputs))


def analyser(*, alternatives: bool = False, tested: bool = False) -> ByStructure[Recovered]:
    """`analyse`, once for PrimFuncs that are structurally equal."""
    return ByStructure(partial(analyse, alternatives=alternatives, tested=tested))


class Analyser:
    """`analyse` and what it lifts, each once for PrimFuncs that are structurally equal."""

    def __init__(self) -> None:
        self._lifted, self._recovered = ByStructure(understood), ByStructure(self._recover)

    def __call__(self, func: Any) -> Recovered:
        return self._recovered(func)

    def lifted(self, func: Any) -> TensorExpression | Refusal:
        """What a PrimFunc computes, or why it is not understood."""
        return self._lifted(func)

    def _recover(self, func: Any) -> Recovered:
        lifted = self.lifted(func)
        return Recovered(lifted) if isinstance(lifted, Refusal) else recovered(lifted, func)


def recover(lifted: TensorExpression, func: Any, alternatives: bool = False) -> Answer:
    """The answer for what was lifted already.

    Where no op is found the packed or permuted layouts of the buffers are undone and the logical
    comprehension is tried.
    """
    found = _candidates(lifted, func, alternatives)
    if isinstance(found, OpInfo):
        return found
    for how in (relaid, _rounded):
        other: Answer = how(lifted, None, alternatives)
        if not isinstance(other, Refusal):
            return other
    return found


def direct(lifted: TensorExpression, func: Any, alternatives: bool = False) -> OpInfo | Refusal:
    """`recover` with the buffers as they are."""
    found = _candidates(lifted, func, alternatives)
    return found if isinstance(found, OpInfo) else _rounded(lifted, None, alternatives) or found


def relaid(lifted: TensorExpression, func: Any, alternatives: bool = False) -> Answer:
    """The op over buffers whose packed or permuted layouts are undone.

    An `OpInfo` if the op has attributes that say so.
    """
    for way in relayings(lifted):
        logical = _candidates(way.lifted, None, alternatives)
        if isinstance(logical, OpInfo):
            found = normalised(replace(logical, kind=pattern_kind(lifted)), way)
            return expressed(found, lifted) or found
    return Refusal("no layout makes the compute an op's")


def _rounded(lifted: TensorExpression, func: Any, alternatives: bool) -> OpInfo | Refusal:
    """The op that is the same but for rounding."""
    if not any("float" in c.out.dtype for c in lifted.outputs):
        return Refusal("nothing is rounded")
    if sum(1 for c in lifted.outputs for _ in subterms(c.body)) > LARGEST:
        return Refusal("the compute is too large to be compared up to rounding")
    try:
        forms = [real(c.body) for c in lifted.outputs]  # remembered as long as they are held
        found = _candidates(lifted, None, alternatives, rounded=True)
        del forms
        return found
    except (TooLarge, RecursionError):
        return Refusal(str(TooLarge()))


def _proposals(
    lifted: TensorExpression, rounded: bool, failed: list[Refusal]
) -> Iterator[tuple[Recogniser, Proposal]]:
    """What recognisers believe; up to rounding also about the form that rounding does not tell.

    Why one could not be asked is added to ``failed``.
    """
    spend(PROPOSE)
    views = [(r, lifted) for r in recognisers(rounded)]
    if rounded:
        usual = idiomatic(lifted)
        views += [(r, usual) for r in recognisers(False)]
    for r, view in views:
        found = proposals(r, view)
        if not isinstance(found, Refusal):
            yield from ((r, p) for p in found)
        elif isinstance(found, RecogniserFailure):
            failed.append(found)


def _candidates(
    lifted: TensorExpression,
    func: Any,
    alternatives: bool,
    *,
    tested: bool = False,
    rounded: bool = False,
) -> OpInfo | Refusal:
    """The first op that is certified; one that lowers to this very PrimFunc goes before it."""
    found: list[OpInfo] = []
    refusals: list[Refusal] = []
    failed: list[Refusal] = []
    tried: list[tuple[Any, ...]] = []
    for r, p in _proposals(lifted, rounded, failed):
        if any(p.name == f.name for f in found):
            continue
        if found and not alternatives:
            judge = partial(lowers_to, p, lifted, func)
        else:
            judge = partial(certify, p, lifted, func, tested=tested, rounded=rounded)
        info = attempt(r, partial(_judged, p, lifted, judge, tried if rounded else []), p)
        if info is None:
            continue
        if isinstance(info, Refusal):
            (failed if isinstance(info, RecogniserFailure) else refusals).append(info)
            continue
        found.append(info)
        if not alternatives and (info.certificate.kind == "rebuilt" or func is None):
            return found[-1]
    if found:
        found.sort(key=lambda f: f.certificate.kind != "rebuilt")
        return replace(found[0], alternatives=tuple(found[1:]) if alternatives else ())
    if refusals or failed:
        return (failed + refusals)[0]
    return Refusal("no recogniser knows this compute", _summary(lifted))


def _judged(
    p: Proposal,
    lifted: TensorExpression,
    judge: Callable[[], Certificate | Refusal],
    tried: list[tuple[Any, ...]],
) -> OpInfo | Refusal | None:
    """The answer of a proposal, or why it is none; None for one that was tried before."""
    claim = (p.name, p.operands, dict(p.attrs))
    if claim in tried:
        return None
    tried.append(claim)
    certificate = judge()
    return certificate if isinstance(certificate, Refusal) else _info(p, lifted, certificate)


#: Terms with more sub-terms are not compared up to rounding.
LARGEST = 300


def _summary(lifted: TensorExpression) -> str:
    text = repr(lifted)
    return text if len(text) <= 400 else text[:397] + "..."


def _value(value: Any) -> Any:
    """An attribute as answers have it: only terms over sizes are left."""
    return tirx.const(value.value, value.dtype) if isinstance(value, Constant) else literals(value)


def _info(p: Proposal, lifted: TensorExpression, certificate: Certificate) -> OpInfo:
    layouts = tuple(
        p.layouts.get(i, "") if isinstance(t, TensorVar) else ""
        for i, t in enumerate(lifted.params)
    )
    return OpInfo(
        name=p.name,
        attrs={k: _value(v) for k, v in p.attrs.items()},
        operands=p.operands,
        kind=pattern_kind(lifted),
        layouts=layouts,
        certificate=certificate,
        undetermined=p.undetermined,
    )
