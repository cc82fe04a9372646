"""Schedule a PrimFunc for a CPU.

    Before: for i, j, k: mm[i, j] += x[i, k] * w[k, j];  for i, j: out[i, j] = max(mm[i, j], 0)
    After:  tiles of rows and vectors that stay in registers over k, stored as max(acc, 0)

All decisions depend on axes and access functions. A function is supported if every buffer has one
writer, which precedes its readers; then the order of computation cannot change its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import tirx

from ...analysis import Refusal
from ...analysis.blocks.tir import loop, seq, values
from ...analysis.lifting.tir.node import NodeDict, items, substitute
from ...analysis.support.warn import warn
from ...analysis.support.wording import did_you_mean, last_line
from ..codegen.vector_units import VectorUnits, machine
from ..dims.span import Span
from ..dims.symbolic_dims import Unbound, symbols
from ..dims.symbolic_dims import name as called
from .loops.blocked import BlockedLoop, blocked
from .loops.minimal_filtering.tiling import choose_tiling, convolution
from .loops.minimal_filtering.winograd import Winograd
from .loops.strided import unstrided
from .loops.windows import joined
from .nest.bfloat16_values import has_bfloat16, in_float32, with_rounded_casts
from .nest.collapse import Views, collapsed
from .nest.digits import split_digits
from .nest.inlining.inlined_lets import inlined_lets
from .nest.inlining.inlined_size import MOST_USES, inlined_size
from .nest.kernel import Part, UnchangedStep
from .nest.program import Unscheduled, program
from .nest.program_kernels import parts
from .nest.symbolic_sizes import UNBOUNDED, SymbolicSizes
from .rules import rules
from .scheduled import WINOGRAD, Scheduled

#: TVM's attribute of scheduled functions.
SCHEDULED = "tirx.is_scheduled"


def schedule(
    func: Any, target: Any, spans: Mapping[str, Span] = MappingProxyType({}),
    winograd: bool = False, name: str = "",
) -> Scheduled | Refusal:  # fmt: skip
    """Schedule a PrimFunc for an LLVM target, or refuse; ``func`` is not modified.

    ``spans`` restricts dimensions, by the names of `symbols`; the result is valid for these values
    only. Other dimensions are assumed to be positive. ``winograd`` permits minimal filtering of
    convolutions, which rounds otherwise. A function that makes our code fail is refused with a
    warning that has its ``name``, by default its global symbol.

    Raises:
        ValueError: ``spans`` names an unknown dimension.
    """
    if not isinstance(func, tirx.PrimFunc):
        return Refusal(f"expected a PrimFunc, got {type(func).__name__}")
    cpu = machine(target)
    if cpu is None:
        return Refusal("the target is not LLVM")
    _check(func, spans)
    if bool((func.attrs or {}).get(SCHEDULED, False)):
        return Refusal("the function is already scheduled")
    try:
        return _scheduled(func, cpu, _sizes(func, spans), winograd)
    except Unscheduled as error:
        return Refusal(error.reason)
    except Exception as error:  # a function of a form that was not expected keeps its loops
        reason = f"it could not be scheduled: {type(error).__name__}: {last_line(error)[:200]}"
        warn(f"{name or called(func)} keeps the loops of its operators: {reason}")
        return Refusal(reason)


def _check(func: Any, spans: Mapping[str, Span]) -> None:
    names = {s.name for s in symbols(func)} if spans else set()
    if unknown := sorted(spans.keys() - names):
        raise ValueError(f"schedule: unknown dimension {', '.join(unknown)}; the dimensions of "
                         f"{called(func)}: {', '.join(sorted(names)) or 'none'}"
                         f"{did_you_mean(unknown[0], names)}")  # fmt: skip


def _sizes(func: Any, spans: Mapping[str, Span]) -> SymbolicSizes:
    try:
        dims = symbols(func)
    except Unbound:
        return UNBOUNDED
    return SymbolicSizes(*((s.var, spans.get(s.name, Span())) for s in dims))


def _scheduled(
    func: Any, cpu: VectorUnits, sizes: SymbolicSizes, winograd: bool
) -> Scheduled | Refusal:
    """Schedule a function; where the values of its kernels are too large, with one for a block."""
    inlined = _emitted(func, cpu, sizes, winograd, True)
    if isinstance(inlined, (Scheduled, Refusal)):
        return inlined
    result = _emitted(func, cpu, sizes, winograd, False)
    if isinstance(result, (Scheduled, Refusal)):
        return result
    return Refusal(f"TVM would inline its values, which then have {result} operands; expected at "
                   f"most {MOST_USES}")  # fmt: skip


def _emitted(
    func: Any, cpu: VectorUnits, sizes: SymbolicSizes, winograd: bool, inlined: bool
) -> Scheduled | Refusal | int:
    """Return a scheduled function, or how many operands its values have if these are too many."""
    is_half = has_bfloat16(func)
    func = inlined_lets(with_rounded_casts(func) if is_half else func)
    loops = program(func, sizes)
    views = Views(items(func.params))
    split = [split_digits(part) for part in parts(loops, inlined)]
    filtered = _filtered(split, loops.inner, cpu, views) if winograd else None
    copied = unstrided(joined(split, loops.inner, cpu), loops.inner)
    nests = [_emit(part, cpu, views) for part in blocked(copied, loops.inner, cpu)]
    body = [nest.stmt for nest in nests]
    names = tuple(dict.fromkeys(name for nest in nests for name in nest.rules))
    reasons = tuple(nest.reason for nest in nests if nest.reason)
    if all(name == PLAIN for name in names):
        return Refusal("; ".join(reasons) or "the function has nothing to schedule")
    if filtered is not None:
        body, names = [filtered(seq(body))], (WINOGRAD, *names)
    stored = [tirx.AllocBuffer(b) for b in _used(body, loops.inner)]
    stmt = seq([*stored, *views.declared(), *body])
    stmt = in_float32(stmt) if is_half else stmt
    if (uses := inlined_size(stmt)) > MOST_USES:
        return uses
    new = tirx.PrimFunc(func.params, stmt, func.ret_type, func.attrs)
    return Scheduled(new.with_attr(SCHEDULED, True), names, reasons)


PLAIN = "plain"


def _filtered(
    split: Sequence[Part], inner: NodeDict[None], cpu: VectorUnits, views: Views
) -> Winograd | None:
    """Return what emits a convolution by minimal filtering, if that is estimated to be faster."""
    conv = convolution(split, inner, views)
    tiling = choose_tiling(conv, cpu) if conv is not None else None
    if conv is None or tiling is None:
        return None
    return Winograd(conv, tiling, cpu, views, inner, lambda k: _emit(k, cpu, views).stmt)


@dataclass(frozen=True)
class _PartNest:
    """The loop nest of a part, the names of its rules, and why it keeps its loops."""

    stmt: Any
    rules: tuple[str, ...]
    reason: str = ""


def _emit(part: Part | BlockedLoop, cpu: VectorUnits, views: Views) -> _PartNest:
    if isinstance(part, UnchangedStep):
        name = part.step.stage.block.name_hint
        return _PartNest(part.step.plain(), (PLAIN,), f"{name}: {part.reason}")
    if isinstance(part, BlockedLoop):
        before, body = ([_emit(k, cpu, views) for k in g] for g in (part.before, part.body))
        nest = loop("b", part.count, part.var, lambda var: substitute(
            seq([n.stmt for n in body]), values((part.var, var))))  # fmt: skip
        names = (name for n in (*before, *body) for name in n.rules)
        return _PartNest(seq([*(n.stmt for n in before), nest]), tuple(names))
    kernel = collapsed(part, views)
    for rule in rules():
        stmt = rule.run(kernel, cpu)
        if not isinstance(stmt, Refusal):
            return _PartNest(stmt, (rule.name,))
    raise AssertionError("a kernel fits no rule")  # serial never refuses


def _used(body: list[Any], inner: NodeDict[None]) -> list[Any]:
    """Return the inner buffers that are stored to, in order of declaration."""
    seen: NodeDict[None] = NodeDict()

    def note(store: Any) -> None:
        seen[store.buffer] = None

    for part in body:
        tvm_ffi.structural_walk(part, (tirx.BufferStore, note))
    return [b for b, _ in inner.items() if b in seen]
