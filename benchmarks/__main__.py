"""List the benchmarks: python -m benchmarks [--page]"""

from __future__ import annotations

import argparse

from benchmarks.index import listing, write


def main() -> None:
    """Print the commands, or write docs/results/index.md."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--page", action="store_true", help="write docs/results/index.md")
    if parser.parse_args().page:
        print(f"written: {write()}")
    else:
        print(listing())


if __name__ == "__main__":
    main()
