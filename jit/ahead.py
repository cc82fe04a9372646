"""Kernels for declared shapes, compiled ahead and chosen by the shape in the PrimFunc itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import Refusal
from .aot import merge
from .dims import bind, copied
from .padding import Padded, pad_safe
from .sites import CallSite
from .strategy import Aot, Dim
from .tuned import Known, scheduled
from .values import values_at
from .variants import Bucket, Exact, Variant


@dataclass(frozen=True)
class Ahead:
    """The PrimFunc that chooses, and what is in it."""

    func: Any
    told: str


def ahead(func: Any, generic: Any, sites: Sequence[CallSite], dims: Mapping[str, Dim], how: Aot,
          target: Any, known: Known | None = None) -> Ahead | Refusal:  # fmt: skip
    """``generic`` with kernels for the declared shapes of ``func`` at these calls of it.

    Schedules that are ``known`` from tuning are taken. A refusal where no shape is declared. The
    first shapes are taken where there are more than ``how.max_variants``.
    """
    of = {name: how.buckets.get(name, _declared(d, how)) for name, d in dims.items()}
    of |= {name: values for name, values in how.buckets.items() if name not in of}
    shapes = sorted(dict.fromkeys(v for s in sites for v in values_at(s, dims, of)))
    if not shapes:
        return Refusal(f"no values are declared for {', '.join(s.name for s in sites[0].symbols)}: "
                       "give `Dim(likely=…)` or `Aot(buckets=…)`")  # fmt: skip
    names = [s.name for s in sites[0].symbols]
    safe, why = _padded(func, names, how.finite) if how.pad else ((), "")
    taken = shapes[: how.max_variants]
    variants = [_variant(func, dict(zip(names, shape, strict=True)), safe, target, known)
                for shape in taken]  # fmt: skip
    told = f"{len(taken)} shapes" + (
        f", padded in {', '.join(p.name for p in safe)}" if safe else ""
    )
    if len(shapes) > len(taken):
        told += f"; {len(shapes) - len(taken)} more are left to the generic kernel"
    return Ahead(merge(generic, variants), told + (f"; not padded: {why}" if why else ""))


def _declared(d: Dim, how: Aot) -> tuple[int, ...]:
    """The values of a dimension that is not named: the likely ones, or all where they are few."""
    if d.likely or d.high is None:
        return d.likely
    every = tuple(v for v in range(d.low, d.high + 1) if v in d)
    return every if len(every) <= how.max_variants else (d.high,)


def _padded(func: Any, names: Sequence[str], finite: bool) -> tuple[tuple[Padded, ...], str]:
    """The proofs for the dimensions that may be padded, and why others may not."""
    found = [(n, pad_safe(func, n)) for n in names]
    why = [f"{n}: {p.reason}" for n, p in found if isinstance(p, Refusal)]
    safe = [p for _, p in found if isinstance(p, Padded)]
    why += [
        f"{p.name}: only where {', '.join(p.assumes)}" for p in safe if p.assumes and not finite
    ]
    return tuple(p for p in safe if finite or not p.assumes), "; ".join(why)


def _variant(func: Any, values: Mapping[str, int], padded: tuple[Padded, ...],
             target: Any, known: Known | None) -> Variant:  # fmt: skip
    bound = bind(func, values)
    done = scheduled(bound, target, known)
    made = copied(bound) if isinstance(done, Refusal) else done.func
    return Bucket(made, values, padded) if padded else Exact(made, values)
