"""Read hostile files with `opinfo inspect`: none may execute, write, crash or hang.

    python -m benchmarks.hostile [--cases 1200] [--seed 0] [--only .json] [--page [FILE]]

    python -m benchmarks.hostile --against-runtime 10 [--seed 0] [--only Conv]

Each file must give an answer, or one line on standard error and exit status 2. Prints every other
outcome and a table of the formats, and exits with 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.common.pages import add_page_option, write_below
from opinfo.byoc.process.line_process import LineProcess, ProcessDied

from .formats import archives, graphs, libraries, scripts
from .formats.case import Case
from .onnx import bombs, changed_fields
from .onnx.against_runtime import compare

MARK = "<!-- written by `python -m benchmarks.hostile --page` -->"
#: Share of all cases by suffix.
SHARES = {".py": 0.3, ".json": 0.2, ".onnx": 0.25, ".pt2": 0.08, ".so": 0.1, ".entry": 0.07}
REFUSED, ANSWERED = "one line, exit status 2", "answered"


@dataclass
class Inspector(LineProcess):
    """The command line in a long-lived process."""

    seconds: float = 180.0
    name: ClassVar[str] = "inspector"

    def run(self, *command: str) -> dict[str, Any]:
        """Run a command; return its exit status, output and events. Raises `ProcessDied`."""
        self._start()
        return self._ask({"command": command}, "inspecting")


def main() -> None:
    """Run and print; exit 1 if a file was neither read nor refused, or did something else too."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a suffix: .py, .json, .onnx, .pt2, .so, .entry")
    parser.add_argument("--against-runtime", type=int, metavar="EACH",
                        help="compare so many changes of each operator test of ONNX with ONNX "
                        "Runtime instead; --only is an operator")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="print every verdict")
    add_page_option(parser, "hostile.md")
    options = parser.parse_args()
    if options.against_runtime:
        return compare(options.against_runtime, options.seed, options.only)
    start = time.monotonic()
    counts = inspected(options.cases, options.seed, options.only, options.all)
    text = table(counts)
    print(f"{text}\n{sum(counts.values())} files, {time.monotonic() - start:.0f} s")
    if options.page:
        write_below(options.page, MARK, text)
    sys.exit(any(verdict not in (REFUSED, ANSWERED) for _, verdict in counts))


def inspected(count: int, seed: int, only: str = "", every: bool = False) -> Counter[Any]:
    """Return the number of files by suffix and verdict."""
    counts: Counter[Any] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ran = folder / "ran"
        ran.mkdir()
        (folder / "files").mkdir()
        inspector = Inspector(command=(sys.executable, "-m", "benchmarks.hostile.worker", name))
        try:
            _warm(inspector, folder)
            for k, case in enumerate(generated(count, seed, only, ran, folder)):
                verdict, why = judged(inspector, case, k, folder, ran)
                counts[case.suffix, verdict] += 1
                if every or verdict not in (REFUSED, ANSWERED):
                    print(
                        f"{case.suffix:7}{verdict:24}{case.name[:60]!r:64}{why[:300]}", flush=True
                    )
        finally:
            inspector.close()
    return counts


def _warm(inspector: Inspector, folder: Path) -> None:
    """Read a good model of ONNX: onnxruntime writes below the home folder when it is imported."""
    path = folder / "files" / "good.onnx"
    path.write_bytes(changed_fields.model().SerializeToString())
    answer = inspector.run("inspect", str(path))
    if answer["code"]:
        raise RuntimeError(f"a good model is refused: {answer['err']}")


def generated(count: int, seed: int, only: str, ran: Path, folder: Path) -> Iterator[Case]:
    """Yield the files of all formats, which try to write the file `ran` / "mark"."""
    rng, mark = random.Random(seed), ran / "mark"
    counts = {s: round(count * share) for s, share in SHARES.items() if only in ("", s)}
    if n := counts.get(".py"):
        yield from scripts.cases(rng, mark, n)
    if n := counts.get(".json"):
        yield from graphs.cases(rng, n)
    if n := counts.get(".onnx"):
        yield from bombs.cases(rng, n // 2)
        yield from changed_fields.cases(rng, mark, n - n // 2)
    if n := counts.get(".pt2"):
        yield from archives.cases(rng, mark, n, archives.saved(folder))
    if n := counts.get(".so"):
        yield from libraries.cases(rng, mark, n, folder)
    if n := counts.get(".entry"):
        yield from libraries.entries(rng, n // 2)


def judged(
    inspector: Inspector, case: Case, place: int, folder: Path, ran: Path
) -> tuple[str, str]:
    """Inspect a file; return the verdict and the reason."""
    if case.suffix == ".entry":
        path = folder / "files" / f"store{place}"
        path.mkdir(mode=0o700)
        (path / f"{'k' * 64}.so").write_bytes(case.content)
        command = ["cache", "ls", "--folder", str(path)]
    else:
        path = folder / "files" / f"case{place}{case.suffix}"
        path.write_bytes(case.content)
        command = ["inspect", str(path)]
    before = set(folder.rglob("*"))
    try:
        answer = inspector.run(*command)
    except ProcessDied as error:
        return "crashed", str(error)
    ours = {folder / name for name in ("out", "err", "refused")}
    appeared = [str(p) for p in set(folder.rglob("*")) - before - ours]
    for leftover in ran.iterdir():
        leftover.unlink()
    err = str(answer["err"])
    if any("mark" in name for name in appeared):
        return "executed", err
    if answer["refused"]:
        return "executed", str(answer["refused"])
    if appeared or answer["events"]:
        return "acted", f"{appeared} {answer['events']}"
    if answer["code"] == 0:
        return ANSWERED, str(answer["out"])
    if answer["code"] == 2 and err.count("\n") == 1 and err.startswith("opinfo: "):
        return REFUSED, err.strip()
    return "not one line", f"exit status {answer['code']}: {err!r}"


def table(counts: Counter[Any]) -> str:
    """Return a table with a row for each format."""
    verdicts = [REFUSED, ANSWERED, *sorted({v for _, v in counts} - {REFUSED, ANSWERED})]
    lines = [
        "| format | files | " + " | ".join(verdicts) + " |",
        "|---" * (len(verdicts) + 2) + "|",
    ]
    for suffix in (*dict.fromkeys(s for s, _ in counts), ""):
        numbers = [sum(n for (s, v), n in counts.items() if v == verdict and suffix in ("", s))
                for verdict in verdicts]  # fmt: skip
        lines.append(
            f"| {suffix or 'all'} | {sum(numbers)} | " + " | ".join(map(str, numbers)) + " |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
