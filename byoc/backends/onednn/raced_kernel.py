"""The kernel of a region, where a race decides between the library's and loops of our own."""

from __future__ import annotations

import functools
from dataclasses import replace

from ...backend.region import Call, Region, Tensor
from ..common.attention_region import is_attention
from .implementation_probe import ask, implementation, job_of, of_one_batch
from .measured_forms import chosen_forms
from .recipes.conv import CONV, CONV_TRANSPOSE


def kernel(region: Region) -> str | None:
    """The name of a region's slowest kernel; None if it is unknown.

    It begins with ``winograd`` if the race of the region's convolution alone chose such a form:
    what follows a convolution costs little, and regions that differ in it share the race. It begins
    with ``tiled`` if a product may be computed by tiles: a race that decides later finds nothing
    that is slower.
    """
    if is_attention(region):
        return attention_kernel(region)
    name, anchor = implementation(region), region.calls[0]
    if name is None or name.startswith("ref") or anchor.op not in (*CONV, "relax.matmul"):
        return name
    job = anchor_job(region)
    if anchor.op == "relax.matmul":
        return "tiled:own" if job is not None and _has_tiles(job) else name
    form = "" if job is None else _raced(job)
    return f"winograd:{form.split()[-1]}" if form.startswith("form winograd") else name


def attention_kernel(region: Region) -> str | None:
    """``attention``, unless the race found its operators one by one to be faster."""
    job = job_of(region)
    return None if job is None else _attention(job)


@functools.lru_cache(maxsize=1 << 12)
def _attention(job: str) -> str:
    return "separate" if chosen_forms([job])[0].startswith("form separate") else "attention"


def anchor_job(region: Region) -> str | None:
    """The job of a convolution or product without what follows it; of other regions as a whole."""
    linear = region.calls[0].op in (*CONV, *CONV_TRANSPOSE, "relax.matmul")
    return job_of(of_one_batch(alone(region) if linear else region))


def alone(region: Region) -> Region:
    """The region of the first call."""
    anchor = region.calls[0]
    given = [o for o in anchor.operands if isinstance(o, Tensor) and o.source == "input"]
    places = {index: k for k, index in enumerate(dict.fromkeys(o.index for o in given))}
    call: Call = replace(anchor, operands=tuple(
        replace(o, index=places[o.index]) if isinstance(o, Tensor) and o.source == "input" else o
        for o in anchor.operands))  # fmt: skip
    inputs = tuple(replace(region.inputs[index], index=k) for index, k in places.items())
    return replace(region, calls=(call,), inputs=inputs, results=anchor.results)


@functools.lru_cache(maxsize=1 << 12)
def _has_tiles(job: str) -> bool:
    """Whether a product has the form ``tiled``."""
    return "steps" in (ask(f"query 0 {job} only tiled") or {})


@functools.lru_cache(maxsize=1 << 12)
def _raced(job: str) -> str:
    """The form that a race chooses; only regions that have a form by Winograd are raced."""
    has = ask(f"query 0 {job} only winograd4") or {}
    return chosen_forms([job])[0] if "steps" in has else ""
