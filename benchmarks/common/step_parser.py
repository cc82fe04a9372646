"""The options of benchmarks that build, time and write their page in separate steps."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path


def step_parser(
    name: str, about: str | None, steps: Sequence[str], only: str, jobs: int = 8
) -> argparse.ArgumentParser:
    """Return a parser with a step, the folder between steps, ``--only`` and ``--jobs``.

    Args:
        name: The module of the benchmark.
        about: What its help says.
        steps: The steps.
        only: What the help says of ``--only``.
        jobs: How many builds are made at once by default.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("step", choices=steps)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help=only)
    parser.add_argument("--jobs", type=int, default=jobs)
    return parser
