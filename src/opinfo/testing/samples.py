"""Derive examples from a backend's patterns: single operators, then pairs.

The calls come from the ``MATCHES`` of recognisers. A call that the backend takes becomes an
example.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import tvm

from ..analysis.proposal.call_op import call_op
from ..analysis.recognise import Matches, modules
from ..byoc import Backend, Pattern, dispatch
from ..byoc.prepare.prepare import prepare
from .example import Example, module, sized, variants

DTYPES = ("float32", "float16")
TENSOR = re.compile(r"(float\d+)\[(.+)\]")
Shape = Callable[[Sequence[int]], Sequence[int]]


@dataclass(frozen=True)
class _Sample:
    """A chain of operators: its inputs, and builders of the chain and of its last operator."""

    ops: tuple[str, ...]
    inputs: tuple[tuple[int | str, ...], ...]
    build: Callable[..., Any]
    last: Callable[..., Any] | None = None


def _same_shape(shape: Sequence[int]) -> Sequence[int]:
    """Return the shape of a constant that equals the value's shape."""
    return shape


def _by_column(shape: Sequence[int]) -> Sequence[int]:
    """Return the shape of a constant with one number for each element of the last axis."""
    return shape[-1:]


def _by_channel(shape: Sequence[int]) -> Sequence[int]:
    """Return the shape of a constant with one number for each element of the second axis."""
    return (shape[1], *[1] * (len(shape) - 2)) if len(shape) > 1 else shape


SHAPES: tuple[Shape, ...] = (_same_shape, _by_column, _by_channel)


def samples(backend: Backend) -> list[Example]:
    """Return programs that the backend takes, as far as its patterns allow deriving them."""
    steps = [*(p.steps[0] for p in backend.patterns), *(s for c in backend.coarse for s in c.steps)]
    first = sorted({n for s in steps for n in s.names})
    accepted = _accepted(backend, [s for n in first for s in _single(n)])
    later = sorted({n for p in backend.patterns for s in p.steps[1:] for n in s.names})
    for shape in SHAPES:
        derived = {(s.ops, s.inputs) for s, _ in accepted}
        required = (s for p in backend.patterns for s in _required(p, shape))
        accepted += _accepted(backend, [s for s in required if (s.ops, s.inputs) not in derived])
    static = [(s, e) for s, e in accepted if s.inputs == _static(s.inputs)]
    anchors = list({e.takes: s for s, e in reversed(static)}.values())
    for shape in SHAPES:
        reached = {s.ops for s, _ in accepted}
        longer = [x for s in anchors for n in later if (*s.ops, n) not in reached
                  for x in _followed(s, n, shape)]  # fmt: skip
        accepted += _accepted(backend, longer)
    followers = [s for s, _ in accepted if s.last is not None]
    complete = {sample.ops: sample for s in anchors for p in backend.patterns
             if (sample := _through(p, s, followers)) is not None}  # fmt: skip
    return [e for _, e in (*accepted, *_accepted(backend, list(complete.values())))]


def _required(pattern: Pattern, shape: Shape) -> list[_Sample]:
    """Return chains of the operators that a pattern requires, if these are several."""
    anchor, *later = [s for s in pattern.steps if s.least]
    chains = [s for n in sorted(anchor.names) for s in _single(n) if later]
    for step in later:
        chains = [x for s in chains for n in sorted(step.names) for x in _followed(s, n, shape)]
    return chains


def _through(pattern: Pattern, sample: _Sample, followers: Sequence[_Sample]) -> _Sample | None:
    """Extend a sample by the steps that can follow its anchor; None if fewer than two."""
    if sample.ops[0] not in pattern.steps[0].names:
        return None
    chain = sample
    for step in pattern.steps[1:]:
        after = next(
            (f for f in followers if f.ops[:-1] == sample.ops and f.ops[-1] in step.names), sample
        )
        if after.last is not None:
            build = _chained(chain.build, after.last)
            chain = _Sample((*chain.ops, after.ops[-1]), sample.inputs, build)
    return chain if len(chain.ops) > len(sample.ops) + 1 and _has_type(chain) else None


def _accepted(backend: Backend, candidates: Sequence[_Sample]) -> list[tuple[_Sample, Example]]:
    """Return the samples that the backend takes completely, with the dtypes in which it does."""
    named = [(s, _example(s)) for s in candidates]
    tried = variants([e for _, e in named])
    if not tried:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        dispatched = dispatch(prepare(module(tried), [backend]), [backend], layouts="best")
    regions: dict[str, list[tuple[str, ...]]] = {}
    for region, planned in zip(dispatched.taken, dispatched.plan.regions, strict=True):
        regions.setdefault(planned.function, []).append(region.ops)
    complete: dict[tuple[str, str], list[str]] = {}
    for variant in tried:
        region_ops = regions.get(variant.function, [])
        if sorted(o for ops in region_ops for o in ops) == sorted(variant.example.takes.split()):
            takes = ", ".join(sorted(map(_short, region_ops)))
            complete.setdefault((variant.example.name, takes), []).append(variant.dtype)
    return [(s, replace(e, takes=takes, dtypes=tuple(dtypes))) for s, e in named
            for (name, takes), dtypes in complete.items() if name == e.name]  # fmt: skip


def _example(sample: _Sample) -> Example:
    name = f"{_short(sample.ops)} of {_shapes(sample)}"
    return Example(name, sample.inputs, sample.build, " ".join(sample.ops), dtypes=DTYPES)


def _single(op: str) -> Iterator[_Sample]:
    """Yield calls of an operator on floating-point tensors, with static and symbolic sizes."""
    seen = set()
    for case in _matches().get(op, ()):
        shapes = _operands(case)
        for form in (_static(shapes), shapes) if shapes else ():
            sample = _Sample((op,), form, _call(op, case.attrs))
            if form not in seen and _has_elements(sample):
                seen.add(form)
                yield sample


def _followed(sample: _Sample, op: str, shape: Shape) -> Iterator[_Sample]:
    """Yield the sample with one more operator, unary or with a constant of that shape."""
    for case in _matches().get(op, ()):
        shapes = _operands(case)
        if shapes is not None and len(shapes) in (1, 2):
            last = _after(_call(op, case.attrs), shape if len(shapes) == 2 else None)
            longer = _Sample((*sample.ops, op), sample.inputs, _chained(sample.build, last), last)
            if _has_type(longer):
                yield longer
                return


def _has_type(sample: _Sample) -> bool:
    """Return whether TVM infers a type; a matmul rejects most constants."""
    try:
        module(variants([_example(sample)]))
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _has_elements(sample: _Sample) -> bool:
    """Return whether no result has a negative size, as of a window that is larger than its data."""
    types = [func.ret_ty for func in module(variants([_example(sample)])).functions.values()]
    dims = (dim for ty in types for part in getattr(ty, "fields", [ty])
            for dim in getattr(part.shape, "values", ()))  # fmt: skip
    return all(not isinstance(dim, tvm.tirx.IntImm) or int(dim) > 0 for dim in dims)


def _chained(before: Callable[..., Any], after: Callable[..., Any]) -> Callable[..., Any]:
    def build(emit: Any, const: Any, *inputs: Any) -> Any:
        return after(emit, const, emit(before(emit, const, *inputs)))

    return build


def _after(call: Callable[..., Any], shape: Shape | None) -> Callable[..., Any]:
    """Return a builder of an operator on a value, or on it and a constant with a derived shape."""

    def build(emit: Any, const: Any, value: Any) -> Any:
        sizes = None if shape is None else shape([int(e) for e in value.ty.shape])
        return call(emit, const, value, *([] if sizes is None else [const(*sizes)]))

    return build


def _static(shapes: Sequence[tuple[int | str, ...]]) -> tuple[tuple[int | str, ...], ...]:
    sizes: dict[str, int] = {}
    return tuple(sized(s, sizes) for s in shapes)


def _call(op: str, attrs: Mapping[str, Any]) -> Callable[..., Any]:
    def build(emit: Any, const: Any, *inputs: Any) -> Any:
        return emit(call_op(op, inputs, dict(attrs), str(inputs[0].ty.dtype)))

    return build


def _operands(case: Matches) -> tuple[tuple[int | str, ...], ...] | None:
    """Return the shapes of operands, or None if one is not a floating-point tensor."""
    parsed = [TENSOR.fullmatch(text) for text in case.operands]
    if not parsed or any(m is None or m[1] != "float32" for m in parsed):
        return None
    if any(isinstance(v, str) and len(v) == 1 for v in case.attrs.values()):
        return None  # a size
    texts = [m[2].split(",") for m in parsed if m is not None]
    return tuple(
        tuple(int(d) if d.strip().isdigit() else d.strip() for d in dims) for dims in texts
    )


@cache
def _matches() -> Mapping[str, Sequence[Matches]]:
    matches: dict[str, list[Matches]] = {}
    for m in modules():
        for case in getattr(m, "MATCHES", ()):
            matches.setdefault(case.op, []).append(case)
    return matches


def _shapes(sample: _Sample) -> str:
    return " × ".join(str(list(x)).replace("'", "") for x in sample.inputs)


def _short(ops: Sequence[str]) -> str:
    return " ".join(o.rpartition(".")[2] for o in ops)
