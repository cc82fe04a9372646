"""Check joint choices of layouts and regions by brute force, and time them on large graphs.

    python -m benchmarks.dispatch [--cases 520] [--sizes 500,1000,2000] [--page [FILE]]

The backends are artificial: one takes chains that begin with a convolution with innermost channels,
one any two pointwise operators, one single operators; priorities and costs are random. Random
modules of up to six operators are compared with every possible plan, unless there are more than
3,000. Large graphs are those of `benchmarks.layout_growth`. Times are CPU seconds. Exits with 1 if
a plan is not the cheapest, is not proved optimal, or takes more than 30 s for 2,000 operators.
"""

from __future__ import annotations

import argparse
import math
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.common.pages import add_page_option, table
from benchmarks.common.resources import cpu_seconds
from benchmarks.layout.growing_nets import lowered
from opinfo.byoc import dispatch
from tests.byoc.dispatching.joint_brute import backends, classes, objectives
from tests.layout.random_graphs import case

NETS = (("residual", "equal"), ("residual", "distinct"), ("shuffle", "equal"))
MOST = 30.0

HEAD = """# Layouts and backends in one problem

Written by `python -m benchmarks.dispatch --page`. Three fictitious backends overlap: **last**
takes chains that begin with a convolution whose channels are innermost, **chains** takes two
pointwise operators, **single** takes one operator. Priorities and costs are random.

{tried} random modules of up to six operators were planned and compared with every possible
plan ({skipped} more have too many): **{wrong} were not the cheapest**.

Large graphs, with layouts chosen and with the given layouts, in CPU seconds:
"""


@dataclass(frozen=True)
class Row:
    """A large graph; ``given`` is the time without choosing layouts."""

    net: str
    ops: int
    seconds: float
    given: float
    regions: int
    conversions: int
    status: str

    @property
    def slow(self) -> bool:
        return self.seconds > MOST * max(self.ops / 2000, 1.0)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dispatch", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--cases", type=int, default=520)
    parser.add_argument("--sizes", default="500,1000,2000")
    add_page_option(parser, "dispatch.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tried, wrong = compared(range(options.cases))
    print(f"{tried} of {options.cases} random modules compared, not the cheapest: {wrong}")
    rows = []
    for size in map(int, filter(None, options.sizes.split(","))):
        for net, kind in NETS:
            rows.append(grown(net, kind, size))
            print(rows[-1], flush=True)
    if options.page:
        options.page.write_text(page(options.cases, tried, wrong, rows), encoding="utf-8")
    bad = [r for r in rows if r.slow or r.status != "optimal"]
    return 1 if wrong or bad else 0


def compared(seeds: Iterable[int]) -> tuple[int, list[int]]:
    """Return the number of random modules compared, and the seeds of those planned wrongly."""
    tried, wrong = 0, []
    for seed in seeds:
        both = objectives(case(seed, 2, 6, special=False))
        if both is not None:
            tried += 1
            if not math.isclose(*both, rel_tol=1e-6, abs_tol=1e-6):
                wrong.append(seed)
    return tried, wrong


def grown(net: str, kind: str, size: int) -> Row:
    """Plan one graph. Analyses of PrimFuncs are reused from graphs planned before."""
    mod, fictitious = lowered(net, size, kind), backends(size)
    fixed_seconds, _ = cpu_seconds(lambda: dispatch(mod, fictitious, classes(size)))
    seconds, dispatched = cpu_seconds(
        lambda: dispatch(mod, fictitious, classes(size), layouts="best")
    )
    assert dispatched.report is not None
    ops = len(dispatched.report.ops)
    status = (
        dispatched.status if dispatched.report.status == "optimal" else dispatched.report.status
    )
    return Row(f"{net}, {kind}", ops, seconds, fixed_seconds, len(dispatched.taken),
               dispatched.report.after.number, status)  # fmt: skip


def page(cases: int, tried: int, wrong: list[int], rows: list[Row]) -> str:
    head = ("graph", "operators", "layouts chosen, s", "given, s", "regions", "conversions left",
            "status")  # fmt: skip
    lines = [(r.net, f"{r.ops:,}", f"{r.seconds:.1f}", f"{r.given:.1f}", str(r.regions),
              str(r.conversions), r.status) for r in rows]  # fmt: skip
    heading = HEAD.format(tried=tried, skipped=cases - tried, wrong=len(wrong))
    return f"{heading}\n{table(head, lines)}\n"


if __name__ == "__main__":
    sys.exit(main())
