"""Run ONNX's own operator tests through `opinfo.load` and `opinfo.compile`.

    python -m benchmarks.onnx_operators [PREFIX ...] [--jobs 2] [--out FILE] [--page [FILE]]

Prints a table of outcomes, and exits with 1 if one is wrong, crashed, late or does not compile.
Each outcome is appended to FILE at once; cases that are there already are not run again, so
a run that was stopped goes on. A prefix selects cases by name, such as `test_reduce_max`.
"""

from __future__ import annotations

from benchmarks.overall.onnx_suite import cases
from benchmarks.overall.operator_suites import workers

SUITE = workers.Suite("onnx_operators", cases.collected, cases.outcome, cases.MEANINGS)

if __name__ == "__main__":
    workers.main(SUITE, __doc__)
