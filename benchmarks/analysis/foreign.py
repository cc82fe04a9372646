"""Recover PrimFuncs that `LegalizeOps` did not produce: the corpus of `tests/analysis/foreign`.

    python -m benchmarks.foreign [--family conv] [--all] [--page [FILE]]

Prints one line per program (as-expected ones only with ``--all``) and the counts. Fails on any
wrong answer, or if fewer than 97 % of the programs that are one operator are recovered. ``--page``
rewrites the table and the refusals of the page, and keeps the prose above them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from benchmarks.common.pages import add_page_option, write_below
from opinfo.analysis import Refusal
from opinfo.analysis.answer.recover import analyse
from opinfo.analysis.results.op_info import operator
from opinfo.testing.strip import strip
from tests.analysis.foreign import corpus
from tests.analysis.foreign.case import Foreign, judge

GOAL = 0.97
#: Characters of a reason on the page.
LONGEST = 200
MARK = "<!-- written by `python -m benchmarks.foreign --page` -->"


def main() -> None:
    """Run, print, exit 1 below the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--family", default="", help="only families with this in their name")
    parser.add_argument("--all", action="store_true", help="print what is as expected too")
    add_page_option(parser, "foreign.md")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    verdicts: list[tuple[str, Foreign, str, str]] = []
    for family, case in corpus():
        if options.family not in family:
            continue
        func = strip(case.build())
        start = time.perf_counter()
        info = analyse(func).info
        ms = 1000 * (time.perf_counter() - start)
        verdict, why = judge(case, info)
        verdicts.append((family, case, verdict, info.reason if isinstance(info, Refusal) else why))
        kind = "one operator" if case.op else "no operator"
        counts[f"{kind}: {verdict}"] += 1
        if options.all or verdict == "wrong" or (verdict == "refused" and case.op):
            certificate = "-" if isinstance(info, Refusal) else info.certificate.kind
            op = operator(info)
            got = "refused" if op is None else op.name
            expected = (case.op or "none").removeprefix("relax.")
            print(
                f"{verdict:10}{family:15}{case.form[:48]:50}{expected:22}"
                f"{got.removeprefix('relax.'):22}{certificate:9}{ms:7.0f} ms  {why[:400]}",
                flush=True,
            )
    for key in sorted(counts):
        print(f"{key}: {counts[key]}")
    if options.page:
        write_below(options.page, MARK, _table(verdicts))
    sys.exit(_failed(counts))


def _table(verdicts: list[tuple[str, Foreign, str, str]]) -> str:
    """Return a row for each family, and the refused programs with their reasons."""
    lines = [
        "| family | one operator | recovered | no single operator | refused | wrong |",
        "|---|---|---|---|---|---|",
    ]
    families = [*dict.fromkeys(f for f, *_ in verdicts), ""]
    for family in families:
        of_family = [(bool(c.op), v) for f, c, v, _ in verdicts if f == family or not family]
        operators = sum(op for op, _ in of_family)
        recovered = of_family.count((True, "recovered"))
        wrong = sum(v == "wrong" for _, v in of_family)
        cells = (
            operators,
            recovered,
            len(of_family) - operators,
            of_family.count((False, "refused")),
            wrong,
        )
        lines.append(f"| {family or 'all'} | " + " | ".join(map(str, cells)) + " |")
    lines += ["", "| refused | operator | reason |", "|---|---|---|"]
    for family, case, verdict, why in verdicts:
        if case.op and verdict != "recovered":
            short = why if len(why) <= LONGEST else f"{why[:LONGEST]} …"
            lines.append(f"| {family}: {case.form} | `{case.op}` | {short} |")
    return "\n".join(lines) + "\n"


def _failed(counts: Counter[str]) -> int:
    recovered = counts["one operator: recovered"]
    total = sum(n for key, n in counts.items() if key.startswith("one"))
    wrong = sum(n for key, n in counts.items() if key.endswith("wrong"))
    print(f"recovered {recovered} of {total}; wrong {wrong}")
    return int(wrong > 0 or recovered < GOAL * total)


if __name__ == "__main__":
    main()
