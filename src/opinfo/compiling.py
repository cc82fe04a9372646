"""`opinfo compile`: a model as one shared library, compared with the unmodified module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .byoc.compile import Compiled
from .byoc.measure import Excluded, Timing

Array = np.ndarray[Any, Any]
#: The largest difference to accept, relative to an output's largest value.
TOLERANCE = 1e-3
#: What a symbolic extent is in a trial.
EXTENT = 2


def explained(found: Compiled) -> list[str]:
    """A line for each op that stayed with TVM, and for what rounds elsewhere than op by op."""
    rounds = Counter((t.backend, t.rounds) for t in found.dispatched.taken if t.rounds)
    return [
        *(f"{o.name} ({o.op}): {o.why}" for o in found.dispatched.left),
        *(f"{n} regions of {backend}: {how}" for (backend, how), n in rounds.items()),
        *_timed(found.dispatched.timings),
    ]


def _timed(timings: Sequence[Timing]) -> list[str]:
    """How many candidates were timed, and those that were excluded."""
    if not timings:
        return []
    bad = [t for t in timings if isinstance(t.result, Excluded)]
    new = sum(not t.known for t in timings)
    return [
        f"{len(timings)} candidates, {new} of them measured now, {len(bad)} excluded",
        *(f"{t.backend} for {', '.join(t.ops)} of {', '.join(t.shapes)}: {t.result}" for t in bad),
    ]


def difference(mod: Any, found: Compiled, seed: int = 0) -> float:
    """The largest difference of the outputs on seeded inputs, relative to the largest value.

    NaN if one has another shape, or is not finite where the other is.
    """
    values = [tvm.runtime.tensor(a) for a in trial_inputs(mod, seed)]
    before = relax.VirtualMachine(tvm.compile(mod, target="llvm"), tvm.cpu())
    pairs = zip(_flat(before["main"](*values)), _flat(found.machine()["main"](*values)),
                strict=True)  # fmt: skip
    return max((_apart(a, b) for a, b in pairs), default=0.0)


def _apart(a: Array, b: Array) -> float:
    if a.shape != b.shape:
        return float("nan")
    one, two = a.astype("float64"), b.astype("float64")
    if not np.array_equal(np.isfinite(one), np.isfinite(two)):
        return float("nan")
    scale = max(float(np.abs(one[np.isfinite(one)]).max(initial=0)), 1e-30)
    apart = np.abs(one - two)
    return float(apart[np.isfinite(apart)].max(initial=0)) / scale


def trial_inputs(mod: Any, seed: int) -> list[Array]:
    """Seeded values of the parameters of `main`: integers are 0 or 1."""
    rng = np.random.default_rng(seed)
    out = []
    for p in mod["main"].params:
        shape = [int(getattr(e, "value", EXTENT)) for e in p.ty.shape.values]
        dtype = str(p.ty.dtype)
        drawn = rng.standard_normal(shape) if "float" in dtype else rng.integers(0, 2, shape)
        out.append(drawn.astype(dtype))
    return out


def _flat(result: Any) -> Sequence[Array]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [array for part in result for array in _flat(part)]
