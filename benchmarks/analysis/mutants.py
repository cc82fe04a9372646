"""Mutate operators of all families, and check every answer with an interpreter.

    python -m benchmarks.mutants [--limit 7] [--only conv] [--json mutants.json]

A mutant is an operator's PrimFunc with one change in its script: a literal, an operation, an index,
a guard or a store. An interpreter that shares no code with the library computes its results. Fails
if an answer computes something other than its mutant. With ``--json``, each operator is written as
soon as it is done, and an interrupted run continues with the missing ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

from opinfo.analysis import Refusal, op_info
from opinfo.testing.mutants import mutants
from tests.common.mutation import feeds, legalised, outputs, trial
from tests.common.mutation_cases import CASES

COLUMNS = ("mutants", "different", "answered", "wrong")


def main() -> None:
    """Print a line for each operator and a table of families; exit 1 on a wrong answer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--limit", type=int, default=7, help="mutants of one operator that differ from it"
    )
    parser.add_argument("--only", default="", help="only operators with this in their name")
    parser.add_argument("--json", type=Path, help="where to keep the counts of each operator")
    options = parser.parse_args()
    kept = options.json
    counts = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for name in CASES:
        if options.only in name and name not in counts:
            counts[name] = measure(name, options.limit)
            print(f"{name:22}" + "  ".join(f"{k} {n}" for k, n in counts[name].items()), flush=True)
            if kept:
                kept.write_text(json.dumps(counts, indent=1))
    total = table(counts)
    sys.exit(int(total["wrong"] > 0))


def measure(name: str, limit: int) -> dict[str, int]:
    """Try mutants until ``limit`` differ; count those answered and those answered wrongly."""
    case = CASES[name]
    original = legalised(case.build, case.operands)
    truth, inputs = op_info(original), feeds(case.operands)
    expected = [outputs(original, i) for i in inputs]
    counts = dict.fromkeys(COLUMNS, 0)
    for change, mutant in mutants(original):
        if counts["different"] == limit:
            break
        result = trial(mutant, truth, inputs, expected)
        counts["mutants"] += 1
        counts["different"] += result.different
        counts["answered"] += result.different and not isinstance(result.info, Refusal)
        counts["wrong"] += bool(result.wrong)
        if result.wrong:
            print(f"WRONG {name}, {change}: {result.wrong}", flush=True)
    return counts


def table(by_operator: dict[str, dict[str, int]]) -> Counter[str]:
    """Print the counts of each family; return their sum."""
    families: dict[str, Counter[str]] = {}
    for name, counts in by_operator.items():
        families.setdefault(CASES[name].family, Counter()).update(counts)
    total = sum(families.values(), Counter[str]())
    print(f"\n{'family':24}" + "".join(f"{c:>11}" for c in COLUMNS))
    for family, counts in {**families, "all": total}.items():
        print(f"{family:24}" + "".join(f"{counts[c]:11}" for c in COLUMNS))
    return total


if __name__ == "__main__":
    main()
