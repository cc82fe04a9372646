"""The part of docs/results/llm.md about modules that run on a CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.pages import table

TITLE = "## Run on a CPU"
#: Largest difference of a logit relative to the largest logit; activations are float16.
LIMIT = 0.02
TEXT = """Written by `python -m benchmarks.llm.mixtral --page`. A Mixtral of q4f16_1 and two layers
with random weights, as the last module of MLC-LLM's pipeline for CUDA, without names. opinfo
compiles it for a CPU with one thread. `mixtral` is the module of the tables above; `mixtral-wide`
has 8 experts of 1024 x 3584. MLC-LLM schedules its kernels for threads of a GPU, so TVM alone has
no code for a CPU: rows with **TVM** are of the same module without backends, its threads made loops
by opinfo.

Operators and FLOPs are those of all functions of the module, such as prompts of several sequences
and sampling. A symbolic size counts as {symbolic} in FLOPs, also that of the vocabulary, so its
product may take more of a step than FLOPs say. A distance is the largest difference between logits
and numpy's, which are computed in float32 with the weights that the words stand for; no logit is
larger than {largest:.1f}. No expert is chosen by a margin of less than {margin:.3f}. The prompt
has {prompt} tokens, and {steps} steps follow. Compiling takes CPU seconds of all processes; a
prompt and a step take CPU ms, the least of several calls. The last column is the time of a step
divided by that of **TVM**. The calls below take most of a step, in CPU time."""
HEAD = ("model", "backends", "operators", "% of FLOPs", "distance, prompt", "distance, steps",
        "compiling, s", "prompt, ms", "step, ms", "/ TVM")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A module and the backends that it was compiled with.

    Attributes:
        model: One of the models of `benchmarks.llm.mixtral`.
        build: One of its builds.
        operators: Operators by backend, of which `tvm` is one.
        flops: The share of FLOPs by backend, without `tvm`.
        prompt: Tokens of the prompt.
        steps: Tokens after it whose logits are compared.
        calls: Steps that were timed.
        prompt_apart: The largest difference of a logit after the prompt.
        step_apart: The same after each step.
        largest: The largest logit.
        margin: By how much the last chosen expert is better than the next one, at least.
        seconds: CPU seconds of compiling.
        prompt_ms: CPU milliseconds of the prompt.
        step_ms: CPU milliseconds of a step.
        slowest: Calls that take most of a step, and their shares of it.
    """

    model: str
    build: str
    operators: Mapping[str, int]
    flops: Mapping[str, float]
    prompt: int
    steps: int
    calls: int
    prompt_apart: float
    step_apart: float
    largest: float
    margin: float
    seconds: float
    prompt_ms: float
    step_ms: float
    slowest: Sequence[tuple[str, float]] = ()

    @property
    def good(self) -> bool:
        """Whether outputs are as close as float16 allows."""
        return all(d <= LIMIT * self.largest for d in (self.prompt_apart, self.step_apart))

    def as_line(self) -> str:
        taken = f"{operators(self)}; {flops(self)} % of FLOPs; " if self.flops else ""
        return (f"{self.model}, {self.build}: {taken}apart "
                f"{self.prompt_apart:.1e} (prompt), {self.step_apart:.1e} (steps) of "
                f"{self.largest:.1f}; compiled in {self.seconds:.0f} CPU s; prompt "
                f"{self.prompt_ms:.2f} ms, step {self.step_ms:.2f} ms")  # fmt: skip


def operators(row: Row) -> str:
    """``20 of 100: experts 4, onednn 16``; empty without backends."""
    taken = {name: n for name, n in row.operators.items() if name != "tvm"}
    if not taken:
        return ""
    whole = f"{sum(taken.values()):,} of {sum(row.operators.values()):,}"
    return whole + _by_backend(taken, "{:,}")


def flops(row: Row) -> str:
    """``98.5: experts 8.1, onednn 90.4``; empty without backends."""
    shares = {name: 100 * share for name, share in row.flops.items()}
    if not shares:
        return ""
    return f"{sum(shares.values()):.1f}" + _by_backend(shares, "{:.1f}")


def _by_backend(values: Mapping[str, float], form: str) -> str:
    return ": " + ", ".join(f"{name} {form.format(values[name])}" for name in sorted(values))


def section(rows: Sequence[Row]) -> str:
    """Return the part of the page; rows are those of one run.

    Raises:
        ValueError: `rows` is empty.
    """
    from opinfo.layout.model.buffer_bytes import SYMBOLIC  # TVM; a worker sets its threads first

    if not rows:
        raise ValueError("the page of language models: no rows to write; expected at least one")
    first = rows[0]
    text = TEXT.format(
        largest=max(r.largest for r in rows), margin=min(r.margin for r in rows),
        prompt=first.prompt, steps=first.steps, symbolic=SYMBOLIC,
    )  # fmt: skip
    alone = {r.model: r.step_ms for r in rows if not r.flops}
    lines = [
        (r.model, r.build, operators(r), flops(r), f"{r.prompt_apart:.4f}", f"{r.step_apart:.4f}",
         f"{r.seconds:.0f}", f"{r.prompt_ms:.2f}", f"{r.step_ms:.2f}",
         f"{r.step_ms / alone[r.model]:.2f}" if r.model in alone else "")
        for r in rows
    ]  # fmt: skip
    calls = [(r.model, r.build, f"`{name}`", f"{100 * share:.0f}")
             for r in rows if r.flops for name, share in r.slowest]  # fmt: skip
    more = [table(("model", "backends", "call", "% of a step"), calls), ""] if calls else []
    return "\n".join([TITLE, "", text, "", table(HEAD, lines), "", *more])


def kept_section(path: Path) -> str:
    """Return this part of a page, which is the last one, from the empty line above it."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, title, below = text.partition(f"\n{TITLE}\n")
    return title + below


def write_section(path: Path, rows: Sequence[Row]) -> None:
    """Write this part of a page, in place of the one that is there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    above = text.removesuffix(kept_section(path)).rstrip("\n")
    path.write_text(f"{above}\n\n{section(rows)}", encoding="utf-8")
