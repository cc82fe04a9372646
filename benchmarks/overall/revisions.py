"""Compare two revisions: op info, planning, dispatch, session hits and model speed.

    python -m benchmarks.revisions [--old ac2a9a8] [--new REVISION] [--quick] [--most 1.03]

Each revision runs in child processes with its own tree; the steps alternate between the two, and so
does which goes first, so that other load on the machine affects both. `first` is in a process that
has only handled a small model, `again` repeats it; each round has fresh processes. Figures are CPU
time of one thread; a ratio is the median of new over old, in pairs, with its quartiles. Without
--new, the new revision is this working tree. Exits with 1 if a ratio is above --most.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.pages import table

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("revision_worker.py")
SMALL = "squeezenet"
ANALYSED = ("resnet50", "bert")
CONVOLUTIONAL = ("resnet50", "shufflenet")
SPEED = ("squeezenet", "ocr_det")
CHAIN, WIDTH, SIZES = 64, 16, (1, 2, 3, 4, 5, 6, 7, 8)


@dataclass
class Process:
    """A child process of one revision."""

    tree: Path
    process: subprocess.Popen[str] = field(init=False)
    folder: Path

    def __post_init__(self) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"), "1")
        cache = self.folder / f"cache-{self.tree.name}"
        paths = {"PYTHONPATH": str(self.tree / "src"), "XDG_CACHE_HOME": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, str(WORKER), str(self.folder)], cwd=self.tree, text=True,
            env={**os.environ, **threads, **paths},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        (origin,) = self.ask("origin")
        if not Path(origin).is_relative_to(self.tree):
            raise RuntimeError(f"opinfo of {self.tree} was expected, got {origin}")

    def ask(self, *step: Any) -> list[Any]:
        """Run a step in the child; return its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(step) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(
                f"{self.tree}: the step {list(step)} failed; see its error by running "
                f"PYTHONPATH={self.tree / 'src'} python {WORKER} {self.folder}"
            )
        return list(json.loads(answer))

    def close(self) -> None:
        """End the process, even in the middle of a step."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def trees(old: str, new: str | None) -> Iterator[tuple[Path, Path]]:
    """Yield the trees of two revisions, as temporary git worktrees."""
    with tempfile.TemporaryDirectory(prefix="revisions-") as name, ExitStack() as stack:
        paths = []
        for place, revision in (("old", old), ("new", new)):
            if revision is None:
                paths.append(ROOT)
                continue
            path = Path(name) / place
            _git("worktree", "add", "--detach", str(path), revision)
            stack.callback(_git, "worktree", "remove", "--force", str(path))
            paths.append(path)
        yield paths[0], paths[1]


def _git(*words: str) -> None:
    subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True)


def prepare(folder: Path, quick: bool) -> None:
    """Write the models and inputs that both revisions read, which do not depend on opinfo."""
    import numpy as np
    import tvm

    from benchmarks.common import full_models
    from tests import models

    for name in {SMALL, *ANALYSED, *CONVOLUTIONAL}:
        (folder / f"{name}.json").write_text(tvm.ir.save_json(models.module(name)))
    for name in SPEED[: 1 if quick else None]:
        import onnx

        onnx.save(full_models.onnx_model(name)[0], folder / f"{name}.onnx")
        (value,) = full_models.inputs(name).values()
        np.save(folder / f"{name}.npy", value)
    (folder / "chain.json").write_text(tvm.ir.save_json(chain()))
    np.save(folder / "chain.npy", np.ones((1, WIDTH), "float32"))


def chain() -> Any:
    """Return CHAIN calls of softmax on x: (n, WIDTH), each a call site of a symbolic function."""
    from tvm import relax, tirx

    from tests.layout import nets

    def build(emit: Any, rng: Any, x: Any) -> Any:
        for _ in range(CHAIN):
            x = emit(relax.op.nn.softmax(x))
        return x

    return nets.net(build, (tirx.Var("n", "int64"), WIDTH), legal=False)


#: The seconds of the old and the new revision in pairs, by the name of the figure.
Pairs = dict[str, list[tuple[float, float]]]


def in_pairs(processes: Sequence[Process], step: Sequence[Any], names: Sequence[str], turn: int,
             pairs: Pairs) -> None:  # fmt: skip
    """Run a step in both processes; which goes first alternates."""
    order = (0, 1) if turn % 2 == 0 else (1, 0)
    answers = {k: processes[k].ask(*step) for k in order}
    for place, name in enumerate(names):
        pairs.setdefault(name, []).append((answers[0][place], answers[1][place]))


@contextmanager
def both(checkouts: Sequence[Path], folder: Path) -> Iterator[list[Process]]:
    """Yield a process for each revision."""
    with ExitStack() as stack:
        processes = []
        for tree in checkouts:
            process = Process(tree, folder=folder)
            stack.callback(process.close)
            processes.append(process)
        yield processes


def fresh(checkouts: Sequence[Path], folder: Path, rounds: int, pairs: Pairs) -> None:
    """Run the steps that depend on the history of a process, in fresh processes."""
    for turn in range(rounds):
        with both(checkouts, folder) as processes:
            for step in ("op_info", "plan", "dispatch"):
                in_pairs(processes, (step, SMALL), (), turn, pairs)
            for step, models in (("op_info", ANALYSED), ("plan", CONVOLUTIONAL),
                                 ("dispatch", CONVOLUTIONAL)):  # fmt: skip
                for model in models:
                    names = [f"{step} {model}, {when}" for when in ("first", "again")]
                    in_pairs(processes, (step, model), names, turn, pairs)
        print(f"round {turn + 1} of {rounds}", file=sys.stderr, flush=True)


def steady(checkouts: Sequence[Path], folder: Path, rounds: int, turns: int, models: Sequence[str],
           pairs: Pairs) -> None:  # fmt: skip
    """Repeat steps in one process: a session's hits and calls of compiled models."""
    for start in range(rounds):
        with both(checkouts, folder) as processes:
            for turn in range(turns + 1):
                kept = pairs if turn else {}
                in_pairs(processes, ("hit", "chain", *SIZES), [f"hit, {CHAIN} sites"],
                         start + turn, kept)  # fmt: skip
                for model in models:
                    in_pairs(processes, ("speed", model), [f"run {model}"], start + turn, kept)
        print(f"compiled {start + 1} of {rounds}", file=sys.stderr, flush=True)


def report(pairs: Pairs, old: str, new: str) -> str:
    """Return a table with milliseconds of both, the ratio and its quartiles for each figure."""
    lines = []
    for name, values in pairs.items():
        low, middle, high = quartiles(values)
        before, after = (1e3 * statistics.median(v[k] for v in values) for k in (0, 1))
        lines.append((name, f"{before:.4g}", f"{after:.4g}", f"{middle:.3f}",
                      f"{low:.3f} to {high:.3f}", str(len(values))))  # fmt: skip
    head = ("CPU ms", old, new, "new / old", "quartiles", "pairs")
    return table(head, lines)


def quartiles(values: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the quartiles of the ratios new over old."""
    ratios = sorted(after / max(before, 1e-9) for before, after in values)
    if len(ratios) == 1:
        return ratios[0], ratios[0], ratios[0]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low, middle, high


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.revisions", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    parser.add_argument("--old", default="ac2a9a8", help="the revision to compare with")
    parser.add_argument("--new", help="a revision in place of this tree")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, one model's speed")
    parser.add_argument("--most", type=float, default=1.03, help="ratio that is still as fast")
    options = parser.parse_args()
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit("terminated")
    )  # an exit removes the worktrees
    pairs: Pairs = {}
    with tempfile.TemporaryDirectory() as name, trees(options.old, options.new) as checkouts:
        folder = Path(name)
        prepare(folder, options.quick)
        fresh(checkouts, folder, 2 if options.quick else 7, pairs)
        models = SPEED[: 1 if options.quick else None]
        steady(checkouts, folder, 1 if options.quick else 2, 15, models, pairs)
    print(report(pairs, options.old, options.new or "this tree"))
    slower = [name for name, values in pairs.items() if quartiles(values)[1] > options.most]
    print(f"above {options.most}: {', '.join(slower)}" if slower else f"none above {options.most}")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
