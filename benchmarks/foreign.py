"""Recover PrimFuncs that `LegalizeOps` did not make: the corpus of `tests/analysis/foreign`.

    python -m benchmarks.foreign [--family conv] [--all]

Prints one line a program (those as expected only with ``--all``) and the counts. Fails on any wrong
answer, or if fewer than 95 % of the programs that are one operator are recovered.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from opinfo.analysis import OpInfo, op_info
from tests.analysis.foreign import corpus
from tests.analysis.foreign.case import judge
from tests.strip import strip

GOAL = 0.95


def main() -> None:
    """Run, print, exit 1 below the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", default="", help="only families with this in their name")
    parser.add_argument("--all", action="store_true", help="print what is as expected too")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for family, case in corpus():
        if options.family not in family:
            continue
        func = strip(case.build())
        start = time.perf_counter()
        info = op_info(func)
        ms = 1000 * (time.perf_counter() - start)
        verdict, why = judge(case, info)
        known = "one operator" if case.op else "no operator"
        counts[f"{known}: {verdict}"] += 1
        if options.all or verdict == "wrong" or (verdict == "refused" and case.op):
            certificate = info.certificate.kind if isinstance(info, OpInfo) else "-"
            got = info.name if isinstance(info, OpInfo) else "refused"
            expected = (case.op or "none").removeprefix("relax.")
            print(
                f"{verdict:10}{family:15}{case.form[:48]:50}{expected:22}"
                f"{got.removeprefix('relax.'):22}{certificate:9}{ms:7.0f} ms  {why[:400]}",
                flush=True,
            )
    for key in sorted(counts):
        print(f"{key}: {counts[key]}")
    sys.exit(_failed(counts))


def _failed(counts: Counter[str]) -> int:
    recovered = counts["one operator: recovered"]
    asked = sum(n for key, n in counts.items() if key.startswith("one"))
    wrong = sum(n for key, n in counts.items() if key.endswith("wrong"))
    print(f"recovered {recovered} of {asked}; wrong {wrong}")
    return int(wrong > 0 or recovered < GOAL * asked)


if __name__ == "__main__":
    main()
