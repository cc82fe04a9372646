"""The commands of all rooms, and the page that lists them: docs/results/index.md."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.pages import PAGES, table

HEAD = """# Results

Everything that was measured, and the command that measures it. Each page says at its head how it
was made; rows without a page print their figures. A command's docstring explains its options:
`python -m benchmarks.op_info --help`. This page is written by `python -m benchmarks --page`.
"""


@dataclass(frozen=True)
class Command:
    """A benchmark: when to run it again, and its page where it has one."""

    after: str
    page: str | None = None


COMMANDS: Mapping[str, Mapping[str, Command]] = {
    "analysis": {
        "models": Command("a recogniser or lifting"),
        "fused": Command("chains of fused PrimFuncs"),
        "coverage": Command("a recogniser; takes 90 minutes", "coverage.md"),
        "foreign": Command("lifting or a recogniser", "foreign.md"),
        "scheduled": Command("lifting of scheduled loops"),
        "relaid": Command("reading layouts back", "relaid.md"),
        "mutants": Command("a recogniser or a proof"),
        "index_maps": Command("index maps"),
        "isl": Command("index maps", "isl.md"),
        "op_info": Command("anything in the analysis"),
        "growth": Command("anything in the analysis"),
        "imports": Command("what `opinfo` imports"),
    },
    "layout": {
        "layouts": Command("the layout search", "layouts.md"),
        "layout_growth": Command("the layout search or the solver", "layout-growth.md"),
        "layout_speed": Command("rewriting or inlining", "layout-speed.md"),
        "layout_fusion": Command("rewriting or inlining", "layout-fusion.md"),
        "layout_graph": Command("planning in graph mode", "layout-graph.md"),
        "layout_fuzz": Command("anything in layout planning", "layout-fuzz.md"),
        "rewrites": Command("rewriting or its proof"),
    },
    "backends": {
        "byoc": Command("a backend or code generation", "speed.md"),
        "byoc_measure": Command("measured costs"),
        "int8": Command("quantised operators"),
        "end_to_end": Command("a front end, compiling or export", "end-to-end.md"),
        "offload": Command("patterns or planning", "offload.md"),
        "dispatch": Command("the choice of layouts and regions", "dispatch.md"),
        "tables": Command("raising operators", "pattern-tables.md"),
        "boundary": Command("the checks of arguments"),
        "nvidia": Command("an NVIDIA backend; needs a GPU"),
    },
    "shapes": {
        "shapes.stream": Command("schedules or kernels", "shapes.md"),
        "shapes.real": Command("schedules or kernels", "shapes-models.md"),
        "shapes.storm": Command("budgets and eviction", "storm.md"),
        "shapes.hit": Command("the call site of a symbolic function"),
        "shapes.serving": Command("the store or the compiling process"),
        "shapes.fuzz": Command("anything in symbolic shapes"),
        "schedules": Command("a schedule rule", "schedules.md"),
        "ranges": Command("schedules for ranges"),
        "aot": Command("kernels merged ahead of time"),
        "padding": Command("the proof of padding", "padding.md"),
        "store": Command("the store of kernels"),
    },
    "attacks": {
        "adversary": Command("lifting or a recogniser", "adversary.md"),
        "hostile": Command("a front end or the command line", "hostile.md"),
        "faults": Command("dispatch, compiling or the store", "faults.md"),
        "session_faults": Command("sessions or the store", "session-faults.md"),
    },
}


def source(room: str, name: str) -> Path:
    """The file that `python -m benchmarks.NAME` runs."""
    base = Path(__file__).parent / room / name.removeprefix(f"{room}.")
    return base / "__main__.py" if base.is_dir() else base.with_suffix(".py")


def summary(room: str, name: str) -> str:
    """The first line of a command's docstring."""
    text = ast.get_docstring(ast.parse(source(room, name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def listing() -> str:
    """The commands, one a line, for a terminal."""
    return "\n".join(
        f"python -m benchmarks.{name:16} {summary(room, name)}"
        for room, commands in COMMANDS.items()
        for name in commands
    )


def page() -> str:
    """The text of docs/results/index.md."""
    parts = [HEAD]
    for room, commands in COMMANDS.items():
        rows = [_row(room, name, command) for name, command in commands.items()]
        head = ("what", "command", "page", "run it after a change to")
        parts.append(f"## {room.capitalize()}\n\n{table(head, rows)}\n")
    return "\n".join(parts)


def _row(room: str, name: str, command: Command) -> tuple[str, ...]:
    link = f"[{Path(command.page).stem}]({command.page})" if command.page else ""
    return summary(room, name), f"`python -m benchmarks.{name}`", link, command.after


def write() -> Path:
    """Write docs/results/index.md."""
    path = PAGES / "index.md"
    path.write_text(page(), encoding="utf-8")
    return path
