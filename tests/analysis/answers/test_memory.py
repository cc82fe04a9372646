"""What an analysis leaves behind: nothing that grows with the number of PrimFuncs."""

from __future__ import annotations

import subprocess
import sys

#: In a process of its own: tests before this one may have seen the same terms.
SCRIPT = """
import gc

import tvm

import opinfo
from benchmarks.analysis.growth import modules
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.terms.term import interning

funcs = modules(60)
opinfo.inspect(tvm.IRModule({f"f{k}": f for k, f in enumerate(funcs[:30])}))
gc.collect()
before = len(interning.TABLE)
report = opinfo.inspect(tvm.IRModule({f"f{k}": f for k, f in enumerate(funcs[30:])}))
lifted = [lift(f) for f in funcs[30:]]
known, held = len(report.known), len(interning.TABLE) - before
del report, lifted
gc.collect()
print(known, held, len(interning.TABLE) - before)
"""


def test_terms_go_with_the_report() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    known, held, left = map(int, ran.stdout.split())
    assert known == 30 and held > 30 > left
