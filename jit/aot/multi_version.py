"""Multi-versioning: AOT variants for declared shapes, selected by shape inside the PrimFunc."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from ...analysis import Refusal
from ...analysis.support.ir.deep_copy import copied
from ...analysis.support.wording import plural
from ...byoc.dims.span import Span
from ...byoc.dims.symbolic_dims import bind
from ...byoc.schedule import schedule
from ..arguments.boundary import Range
from ..config.dim_values import values_at
from ..config.ranges import parts, spans_at
from ..config.sites import CallSite
from ..config.strategy import Aot, Dim
from ..padding import PaddingProof, pad_safe
from ..tune.schedule_database import OpenDatabase, scheduled
from .kernel_variants import Bucket, Exact, Ranged, Variant
from .merge import merge
from .padding_cost import ADDRESSED, buffers, lowest, size


@dataclass(frozen=True)
class MultiVersioned:
    """The PrimFunc that selects a variant, and a summary of its variants."""

    func: Any
    summary: str


def multi_version(
    func: Any, generic: Any, sites: Sequence[CallSite], dims: Mapping[str, Dim], how: Aot,
    target: Any, database: OpenDatabase | None = None,
) -> MultiVersioned | Refusal:  # fmt: skip
    """Merge ``generic`` with kernels for the shapes of ``func`` declared at its call sites.

    Tuned schedules in ``database`` are preferred. At most ``how.max_variants`` variants are built:
    shapes first, then ranges. Refuses if no shape is declared.
    """
    shapes, spans = _declared(sites, dims, how)
    if not shapes and not spans:
        return Refusal(_undeclared(sites[0], _ranges(dims, how), how))
    names = [s.name for s in sites[0].symbols]
    safe, why = _padded(func, names, how.finite) if how.pad or how.max else ((), "")
    at = {s: dict(zip(names, s, strict=True)) for s in shapes}
    full = {s: bind(func, at[s]) for s in shapes if min(s) > 0}
    huge = [s for s in full if _largest(full[s], s) > ADDRESSED]
    empty = [s for s in shapes if s not in huge and (s not in full or _empty(full[s]))]
    shapes = [s for s in shapes if s not in empty and s not in huge]
    built_shapes = shapes[: how.max_variants]
    built_spans = spans[: how.max_variants - len(built_shapes)]
    low = {s: lowest(func, full[s], at[s], safe) for s in built_shapes}
    variants: list[Variant] = []
    for shape in built_shapes:
        variants += _variants(full[shape], at[shape], safe, low[shape], target, database)
    ranged = [_ranged(func, s, target) for s in built_spans]
    kept = [v for v in ranged if not isinstance(v, Refusal)]
    note = _padding_note(safe) if any(isinstance(v, Bucket) for v in variants) else ""
    unbuilt = len(shapes) + len(spans) - len(built_shapes) - len(built_spans)
    summary = [
        *_counts(len(built_shapes), note, len(kept)),
        *_left_out(unbuilt, len(huge), len(empty)),
        *([f"not padded: {why}"] if why else []),
        *(why for s in built_shapes for why in _above(at[s], low[s])),
        *dict.fromkeys(f"no ranges: {v.reason}" for v in ranged if isinstance(v, Refusal)),
    ]
    return MultiVersioned(merge(generic, [*variants, *kept]), "; ".join(summary))


def _declared(
    sites: Sequence[CallSite], dims: Mapping[str, Dim], how: Aot
) -> tuple[list[tuple[int, ...]], list[dict[str, Span]]]:
    """Return the shapes and the ranges that are declared for the call sites, each once."""
    dim_values = {name: _values(name, d, how) for name, d in dims.items()} | dict(how.buckets)
    shapes = sorted(dict.fromkeys(v for s in sites for v in values_at(s, dims, dim_values)))
    ranges = _ranges(dims, how)
    spans: list[dict[str, Span]] = []
    for site in sites:
        spans += [x for x in spans_at(site, ranges) if x not in spans]
    return shapes, spans


def _ranges(dims: Mapping[str, Dim], how: Aot) -> dict[str, tuple[Range, ...]]:
    """Return the ranges of each dimension: the requested ones, else the default ones."""
    return {name: _parts(name, d, how) for name, d in dims.items()} | how.checked()


def _counts(shapes: int, note: str, ranges: int) -> list[str]:
    """Say how many variants are built; the note is on the shapes."""
    counts = [plural(shapes, "shape") + note] if shapes else []
    counts += [plural(ranges, "range")] if ranges else []
    return [", ".join(counts)] if counts else []


def _left_out(unbuilt: int, huge: int, empty: int) -> list[str]:
    """Say how many of the declared shapes and ranges have no variant, and why."""
    out = [f"{unbuilt} more served by the generic kernel"] if unbuilt else []
    if huge:
        out.append(f"{plural(huge, 'shape')} skipped: a tensor exceeds the address space")
    return [*out, *([f"{empty} skipped: a tensor is empty"] if empty else [])]


def _undeclared(site: CallSite, ranges: Mapping[str, Sequence[Range]], how: Aot) -> str:
    """Say why there are no AOT variants to build."""
    names = ", ".join(s.name for s in site.symbols)
    bounded = {name: ranges[name] for name in map(site.called, site.free()) if ranges.get(name)}
    if bounded:
        bounds = ", ".join(
            f"{name} in {' or '.join(map(str, some))}" for name, some in bounded.items()
        )
        return f"the bounds {bounds} leave its dimensions effectively unbounded"
    if how.max:
        return f"no upper bound is declared for {names}: use `Dim(low, high)`"
    return (f"no values are declared for {names}: use `Dim(likely=…)`, `Aot(buckets=…)` or "
            "`Aot(ranges=…)`")  # fmt: skip


def _padding_note(safe: Sequence[PaddingProof]) -> str:
    return f", padded in {', '.join(p.name for p in safe)}" if safe else ""


def _values(name: str, dim: Dim, how: Aot) -> tuple[int, ...]:
    """Return the default values of a dimension: the likely ones, or all if they are few."""
    last = dim.last()
    if how.max:
        return () if last is None else (last,)
    if dim.likely or last is None or name in how.ranges:
        return dim.likely
    return _every(dim, how) or (last,)


def _every(dim: Dim, how: Aot) -> tuple[int, ...]:
    """Return all values of a dimension, or none if there are too many."""
    if dim.high is None or (dim.high - dim.low) // dim.multiple_of > how.max_variants:
        return ()
    every = tuple(v for v in range(max(1, dim.low), dim.high + 1) if v in dim)
    return every if len(every) <= how.max_variants else ()


def _parts(name: str, dim: Dim, how: Aot) -> tuple[Range, ...]:
    """Return the default ranges of a dimension: none if buckets cover it."""
    if how.max or name in how.buckets or (not dim.likely and _every(dim, how)):
        return ()
    return parts(dim)


def _padded(func: Any, names: Sequence[str], finite: bool) -> tuple[tuple[PaddingProof, ...], str]:
    """Return proofs for the dimensions that may be padded, and why the others may not."""
    results = [(n, pad_safe(func, n)) for n in names]
    why = [f"{n}: {p.reason}" for n, p in results if isinstance(p, Refusal)]
    safe = [p for _, p in results if isinstance(p, PaddingProof)]
    safe, conflicts = _agreeing(safe)
    why += conflicts
    why += [f"{p.name}: only if {', '.join(p.assumes)}" for p in safe if p.assumes and not finite]
    return tuple(p for p in safe if finite or not p.assumes), "; ".join(why)


def _agreeing(safe: Sequence[PaddingProof]) -> tuple[list[PaddingProof], list[str]]:
    """Keep the proofs that agree on the padding of each parameter; earlier ones win.

    Also return why each of the others is dropped.
    """
    contents: dict[int, tuple[Any, str]] = {}
    kept: list[PaddingProof] = []
    why: list[str] = []
    for padded in safe:
        required = {
            grown.param: (grown.content, padded.name)
            for grown in padded.inputs
            if grown.content is not None
        }
        conflict = next(
            (k for k in required if k in contents and contents[k][0] != required[k][0]), None
        )
        if conflict is None:
            kept.append(padded)
            contents |= required
        else:
            content, name = contents[conflict]
            why.append(
                f"{padded.name}: the padding of parameter {conflict} would hold "
                f"{required[conflict][0]}, and that of {name} {content}"
            )
    return kept, why


def _ranged(func: Any, spans: Mapping[str, Span], target: Any) -> Ranged | Refusal:
    """Schedule a kernel for these spans, or refuse."""
    result = schedule(func, target, spans)
    return result if isinstance(result, Refusal) else Ranged(result.func, spans)


def _empty(bound: Any) -> bool:
    """Return whether a tensor of a static function has no elements."""
    return any(isinstance(e, tirx.IntImm) and e.value < 1
               for b in buffers(bound) for e in b.ty.shape)  # fmt: skip


def _largest(bound: Any, values: Sequence[int]) -> int:
    """Return the largest extent or size in bytes of a static function."""
    return max(*values, *map(size, buffers(bound)))


def _above(values: Mapping[str, int], low: Mapping[str, int] | Refusal) -> list[str]:
    """Say which smaller shapes are not padded to `values`, if any."""
    if isinstance(low, Refusal):
        return [f"not padded to {_at(values)}: {low.reason}"]
    return [f"padded to {_at(values)} from {_at(low)}"] if max(low.values(), default=1) > 1 else []


def _at(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _variants(bound: Any, values: Mapping[str, int], padded: tuple[PaddingProof, ...],
              low: Mapping[str, int] | Refusal, target: Any,
              database: OpenDatabase | None) -> tuple[Variant, ...]:  # fmt: skip
    """Return the kernel of a shape, and the same over padded copies for shapes from ``low``."""
    result = scheduled(bound, target, database)
    kernel = copied(bound) if isinstance(result, Refusal) else result.func
    exact = Exact(kernel, values)
    if not padded or isinstance(low, Refusal):
        return (exact,)
    return exact, Bucket(kernel, values, padded, low)
