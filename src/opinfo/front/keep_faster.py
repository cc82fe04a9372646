"""Keep the faster of two builds of a model, as timed."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import tvm

from ..analysis.support.progress import stage
from ..verify.time_builds import time_builds
from ..verify.verification import trial_inputs
from .compiled_model import Compiled

#: A build replaces the other only if it takes at most this part of its time: times are noisy.
PART = 0.99


def keep_faster(plain: Compiled, tuned: Compiled, model: Any) -> Compiled:
    """Return the tuned build if it is faster than the plain one, else the plain one.

    Both are called in turns on the same inputs. Builds with the same plan are not timed.

    Args:
        plain: A build chosen by expected costs.
        tuned: A build chosen by measured costs.
        model: The module of both.
    """
    before, after = plain.dispatched, tuned.dispatched
    same = before is not None and after is not None and before.plan == after.plan
    if same or "main" not in tuned.signatures:
        return replace(tuned, kept="")
    stage("comparing with the build by expected costs")
    values = [tvm.runtime.tensor(a) for a in trial_inputs(model, 0)]
    threads = int(tuned.target.attrs.get("num-cores") or 1)
    try:
        times = time_builds((plain.library, tuned.library), values, threads)
    except RuntimeError as error:  # such as code that crashes, which only measuring excludes
        return replace(tuned, kept=f"kept the choice by measured costs, untimed: {error}")
    expected, measured = map(median, times)
    chosen, name = (tuned, "measured") if measured <= PART * expected else (plain, "expected")
    both = f"{measured:.3f} ms by measured, {expected:.3f} ms by expected costs"
    return replace(chosen, kept=f"kept the choice by {name} costs: {both}")
