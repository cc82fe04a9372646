"""Operators whose buffers were moved to random layouts: how many are read back, and are they right?

    python -m benchmarks.relaid [--cases 1000] [--seed 0] [--verbose] [--out FILE]

Any subset of a PrimFunc's buffers (inputs, weights, outputs, intermediate ones) is permuted,
packed, packed with padding, packed in two levels or fused by `Schedule.transform_layout`. An answer
is right if the operator, built from its name and attributes over the logical buffers and compiled,
gives what the transformed PrimFunc gives, through the index maps that the answer claims. Exits with
1 if one is wrong.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tests.relaid.trial import Trial, trial

RESULTS = Path(__file__).parent / "results" / "relaid.json"


def trials(cases: int, seed: int) -> Iterator[Trial]:
    """As many cases as were asked for that were moved and are operators that opinfo knows."""
    done = 0
    while done < cases:
        found = trial(seed)
        seed += 1
        done += found.status not in ("unmoved", "unknown")
        yield found


def table(found: Sequence[Trial]) -> str:
    """Recovered and all cases of each family, without and with padding."""
    lines = [f"{'family':16}{'not padded':>18}{'padded':>18}{'wrong':>7}"]
    for family in [*sorted({t.family for t in found}), "all"]:
        mine = [t for t in found if family in (t.family, "all")]
        shown = [_share([t for t in mine if t.padded == padded]) for padded in (False, True)]
        wrong = sum(t.status == "wrong" for t in mine)
        lines.append(f"{family:16}{shown[0]:>18}{shown[1]:>18}{wrong:7}")
    return "\n".join(lines)


def _share(found: Sequence[Trial]) -> str:
    good = sum(t.status == "recovered" for t in found)
    return f"{good} of {len(found)} {good / len(found):4.0%}" if found else "-"


def main() -> None:
    """Run, print a table and the reasons, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true", help="print every case that is refused")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    every = []
    for t in trials(options.cases, options.seed):
        every.append(t)
        if t.status == "wrong" or (options.verbose and t.status == "refused"):
            print(t.status, t.seed, t.name, t.detail, flush=True)
    found = [t for t in every if t.status not in ("unmoved", "unknown")]
    print(table(found))
    skipped = Counter(t.status for t in every if t not in found)
    print(f"left out: {skipped['unmoved']} not moved, {skipped['unknown']} not known unmoved")
    reasons = Counter(re.sub(r":.*", "", t.detail) for t in found if t.status == "refused")
    for reason, count in reasons.most_common(10):
        print(f"{count:5} {reason}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    summary = {"cases": len(found), "status": Counter(t.status for t in found)}
    refused = [asdict(t) for t in found if t.status != "recovered"]
    options.out.write_text(json.dumps({**summary, "not recovered": refused}, indent=1) + "\n")
    raise SystemExit(any(t.status == "wrong" for t in found))


if __name__ == "__main__":
    main()
