"""Is a planned module the same as the module that it was made from? Both are compiled and run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.layout import Layout, Planned, plan_layout
from opinfo.testing.unoptimised import TARGET as UNOPTIMISED
from opinfo.testing.unoptimised import unoptimised

from ..common.run import flat
from .random_graphs import Array, Case

TARGET = tvm.target.Target(UNOPTIMISED)
TOLERANCE = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-10, "int8": 1.0}


class Different(AssertionError):
    """The planned module is another one; the message says in what."""


@dataclass(frozen=True)
class Verdict:
    """``bits``: all results are equal bit for bit. ``conversions``: those that are left."""

    bits: bool
    status: str
    conversions: int
    moved: int


def lowering() -> Any:
    """TVM's passes for the virtual machine, without fusion and without folding."""
    t = relax.transform
    return tvm.transform.Sequential([
        relax.backend.DispatchSortScan(), t.LegalizeOps(), t.ToNonDataflow(),
        t.RemovePurityChecking(), t.CallTIRRewrite(),
        t.LowerAllocTensor(), t.KillAfterLastUse(), t.LowerRuntimeBuiltin(), t.ComputePrimValue(),
        t.VMShapeLower(), t.AttachGlobalSymbol(),
    ])  # fmt: skip


def execute(mod: Any, values: Sequence[Array]) -> list[Array]:
    """The tensors that ``main`` gives, a tuple's in a flat list."""
    built = unoptimised(mod, relax_pipeline=lowering())
    machine = relax.VirtualMachine(built, tvm.cpu())
    given = [tvm.runtime.tensor(np.require(v, requirements="C")) for v in values]
    return flat(machine["main"](*given))


def planned(case: Case) -> Planned:
    """The case's plan. Raises `Different` if the planner does what it should not."""
    before = case.module.script(show_meta=True)
    found = plan_layout(
        case.module, case.desired, mode=case.mode, objective=case.objective, pins=case.pins
    )
    if case.module.script(show_meta=True) != before:
        raise Different("the module that was given is another one now")
    if found.report.status != "optimal":
        raise Different(f"the solver's status is {found.report.status}")
    relax.analysis.well_formed(found.module)
    return found


def check(case: Case) -> Verdict:
    """Plans and runs. Raises `Different`."""
    found = planned(case)
    want = execute(case.module, case.inputs)
    got = execute(found.module, physical(case))
    bits = compare(want, got)
    report = found.report
    return Verdict(bits, report.status, len(report.conversions), len(report.moved()))


def physical(case: Case) -> list[Array]:
    """The inputs as the planned module takes them."""
    out = list(case.inputs)
    names = [p.name for p in case.module["main"].params]
    for name, text in case.pins.items():
        out[names.index(name)] = Layout.parse(text).move(out[names.index(name)])
    return out


def compare(want: Sequence[Array], got: Sequence[Array]) -> bool:
    """Whether all are equal bit for bit. Raises `Different` if they are not even close."""
    if [(x.shape, x.dtype) for x in want] != [(y.shape, y.dtype) for y in got]:
        raise Different(f"results of {[y.shape for y in got]} for {[x.shape for x in want]}")
    for k, (x, y) in enumerate(zip(want, got, strict=True)):
        a, b = x.astype("float64"), y.astype("float64")
        tolerance = TOLERANCE.get(str(x.dtype), 0.0)
        scale = max(1.0, float(np.max(np.abs(a[np.isfinite(a)]), initial=0.0)))
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            wrong = int((~np.isclose(a, b, tolerance, tolerance * scale, equal_nan=True)).sum())
            raise Different(f"result {k} differs in {wrong} of {a.size} elements")
    return all(x.tobytes() == y.tobytes() for x, y in zip(want, got, strict=True))
