"""Run the samples that torch has for its own operators through its exporter and `opinfo`.

    python -m benchmarks.torch_operators [PREFIX ...] [--jobs 2] [--out FILE] [--page [FILE]]

Prints a table of outcomes, and exits with 1 if one is wrong, crashed, late or does not compile.
Each outcome is appended to FILE at once; cases that are there already are not run again, so
a run that was stopped goes on. A prefix selects cases by name, such as `nn.functional.max`.
"""

from __future__ import annotations

from benchmarks.overall.operator_suites import workers
from benchmarks.overall.torch_suite import samples, torch_cases

SUITE = workers.Suite(
    "torch_operators", samples.collected, torch_cases.outcome, torch_cases.MEANINGS
)

if __name__ == "__main__":
    workers.main(SUITE, __doc__)
