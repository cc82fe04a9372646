"""What an analysis leaves behind: nothing that grows with the number of PrimFuncs."""

from __future__ import annotations

import gc

import tvm

import opinfo
from benchmarks.analysis.growth import modules
from opinfo.analysis.terms.term import interning


def test_terms_go_with_the_report() -> None:
    funcs = modules(60)
    opinfo.inspect(tvm.IRModule({f"f{k}": f for k, f in enumerate(funcs[:30])}))
    gc.collect()
    before = set(interning.TABLE)
    report = opinfo.inspect(tvm.IRModule({f"f{k}": f for k, f in enumerate(funcs[30:])}))
    new = set(interning.TABLE) - before  # others may go meanwhile
    assert len(report.known) == 30 and new
    del report
    gc.collect()
    assert len(new & set(interning.TABLE)) < 30
