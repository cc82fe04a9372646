"""Schedule a program, or rewrite it over random layouts, and run the result beside it.

Inputs are small integers, whose sums are exact in any order; so results are compared closely.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.tirx.buffer import is_buffer_var

from opinfo.analysis import Refusal
from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.schedule import schedule
from opinfo.layout import Digit, Layout
from opinfo.layout.rewrite.rewrite import rewrite

from .oracle import TOLERANCE, Array
from .program import Program
from .sized import Sizes, choices, shapes

#: Accepted differences; products of several numbers may be rounded in float16.
CLOSE = {**TOLERANCE, "float32": 1e-5}


@dataclass(frozen=True)
class NewForm:
    """A PrimFunc that should compute what a program computes, and the layouts of its buffers."""

    func: Any
    layouts: tuple[Layout | None, ...]


def scheduled(program: Program, func: Any, seed: int) -> NewForm | Refusal:
    """The program with the CPU schedule of functions of symbolic shapes."""
    found = schedule(func, native_target())
    return found if isinstance(found, Refusal) else NewForm(found.func, (None,) * len(func.params))


def relaid(program: Program, func: Any, seed: int) -> NewForm | Refusal:
    """The program over buffers in random layouts."""
    rng = random.Random(seed)
    layouts = [_layout(rng, p) if is_buffer_var(p) else None for p in func.params]
    found = rewrite(func, layouts, rng.choice(("layout", "tiled", "given")))
    return found if isinstance(found, Refusal) else NewForm(found.func, found.layouts)


REWRITES: dict[str, Callable[[Program, Any, int], NewForm | Refusal]] = {
    "schedule": scheduled,
    "layouts": relaid,
}


def _layout(rng: random.Random, buffer: Any) -> Layout | None:
    """A permutation, one axis perhaps split in two digits."""
    rank = len(buffer.ty.shape)
    if not rank or rng.random() < 0.3:
        return None
    dims = [(Digit(axis),) for axis in rng.sample(range(rank), rank)]
    if rng.random() < 0.6:
        axis, size = rng.randrange(rank), rng.choice((2, 3, 4))
        dims = [(Digit(axis, size),) if d[0].axis == axis else d for d in dims]
        dims.insert(rng.choice((len(dims), rng.randrange(len(dims) + 1))), (Digit(axis, 1, size),))
    pads = (0, 0, None) if str(buffer.ty.dtype) == "bool" else (0, 0, None, 1)
    return Layout(tuple(dims), rng.choice(pads))


def differs(program: Program, func: Any, form: NewForm, run: Any, new: Any, seed: int) -> str:
    """Return how results or the padding differ on some inputs; empty if they agree."""
    for sizes in choices(program, seed):
        arrays = _arrays(program, func, sizes, seed)
        expected = _call(run, func, arrays, sizes)
        own = [x for x, p in zip(form.layouts, func.params, strict=True) if is_buffer_var(p)]
        layouts = [x or Layout.identity(a.ndim) for x, a in zip(own, arrays, strict=True)]
        moved = [x.move(a) for x, a in zip(layouts, arrays, strict=True)]
        stored = _call(new, func, moved, sizes)
        fault = _fault(expected, stored, layouts[-1])
        if fault:
            return f"{fault} at {sizes} in {form.layouts}"
    return ""


def _fault(expected: Array, stored: Array, layout: Layout) -> str:
    places = layout.forward([*np.indices(expected.shape)], expected.shape) if expected.ndim else ()
    index = tuple(np.broadcast_arrays(*places)) if places else ()
    got, close = stored[index], CLOSE.get(str(expected.dtype), 0.0)
    a, b = expected.astype("float64"), got.astype("float64")
    scale = float(np.abs(np.where(np.isfinite(a), a, 0)).max(initial=1))
    same = np.isclose(a, b, rtol=close, atol=close * scale, equal_nan=True)
    same |= ~(np.isfinite(a) | np.isfinite(b))
    if not same.all():
        place = np.unravel_index(int(np.argmin(same)), same.shape)
        return f"{expected[place]!r} and {got[place]!r} at {tuple(map(int, place))}"
    padding = np.ones(stored.shape, bool)
    padding[index] = False
    if layout.pad_value is not None and not (stored[padding] == layout.pad_value).all():
        return f"the padding is not {layout.pad_value}"
    return ""


def _arrays(program: Program, func: Any, sizes: Sizes, seed: int) -> list[Array]:
    """Inputs, and an output that holds something else."""
    rng, arrays = np.random.default_rng(seed), list[Array]()
    for k, (shape, dtype) in enumerate(shapes(func, sizes)):
        low, high = program.places.get(k, (0, 1) if dtype == "bool" else (1, 3))
        signed = k not in program.places and dtype.startswith(("int", "float"))
        values = rng.integers(-3 if signed else low, high + 1, shape)
        values = np.where(values == 0, 1, values) if signed else values  # it may divide
        arrays.append(np.asarray(values if k < program.inputs else np.full(shape, 7)).astype(dtype))
    return arrays


def _call(run: Any, func: Any, arrays: Sequence[Array], sizes: Sizes) -> Array:
    tensors = [tvm.runtime.tensor(np.asarray(a, order="C")) for a in arrays]  # of rank 0, too
    remaining = iter(tensors)
    run(*(next(remaining) if is_buffer_var(p) else sizes[p.name] for p in func.params))
    return np.asarray(tensors[-1].numpy())
