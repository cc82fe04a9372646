"""The structure of the library and the benchmarks, from their imports and definitions.

    python -m tests.structure

Every import counts: at the top of a file, inside a function, for types only.
"""

from __future__ import annotations

import ast
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIBRARY = ("analysis", "layout", "byoc", "jit")
FRONT = "src/opinfo"
#: The packages to examine, with their folders; of the tests only the sizes of folders.
HOUSES = {"opinfo": (*LIBRARY, FRONT), "benchmarks": ("benchmarks",), "tests": ("tests",)}
MOST_FILES, MEDIAN_LINES = 15, 150

_COMMAND = "the command, and what it runs"
_BACKENDS = "the same part of several backends"
_OPERATOR = "the same operator, recognised, scheduled or taken by a backend"
#: Basenames shared by files with one subject, and that subject.
RELATED = {
    "abi.py": "the ABI of generated code, and its public name",
    "attention.py": _OPERATOR,
    "calibrate.py": _COMMAND,
    "compile.py": _COMMAND,
    "concat.py": _OPERATOR,
    "conv.py": _OPERATOR,
    "convert.py": _BACKENDS,
    "dispatch.py": _COMMAND,
    "inline.py": "the rule which buffers are inlined, and a rewrite by it",
    "locate.py": _BACKENDS,
    "matmul.py": _OPERATOR,
    "page.py": "the page of a benchmark's results",
    "patterns.py": _BACKENDS,
    "plan.py": _COMMAND,
    "pointwise.py": _OPERATOR,
    "pools.py": _OPERATOR,
    "products.py": _OPERATOR,
    "resizing.py": _OPERATOR,
    "shapes.py": _OPERATOR,
    "source.py": _BACKENDS,
    "tune.py": _COMMAND,
}

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Source:
    """A file: its module, its path below the root, its syntax tree."""

    module: str
    path: Path
    tree: ast.Module
    lines: int

    @property
    def package(self) -> str:
        is_package = self.path.name == "__init__.py"
        return self.module if is_package else self.module.rpartition(".")[0]

    @property
    def room(self) -> str:
        return str(self.path.parent)


def sources(house: str = "opinfo") -> Mapping[str, Source]:
    """The files of a package by module."""
    return _parsed(house)  # a cache tells an argument that is passed from the default


@cache
def _parsed(house: str) -> Mapping[str, Source]:
    return {s.module: s for s in _sources(house)}


def _sources(house: str) -> Iterator[Source]:
    for folder in HOUSES[house]:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT)
            inside = path.relative_to("src/opinfo") if folder == FRONT else path
            if folder == FRONT and inside.parts[0] in LIBRARY:
                continue  # a link
            parts = inside.with_suffix("").parts
            names = [*(["opinfo"] if house == "opinfo" else []), *parts]
            module = ".".join(names[:-1] if names[-1] == "__init__" else names)
            text = file.read_text(encoding="utf-8")
            yield Source(module, path, ast.parse(text), text.count("\n"))


def imports(source: Source, known: Mapping[str, Source]) -> Iterator[str]:
    """The modules of the package that a file imports."""
    for node in statements(source.tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name in known)
        elif isinstance(node, ast.ImportFrom):
            up = source.package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in known or base in known:
                    yield whole if whole in known else base


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements in a node; a walk over its expressions, too, takes ten times as long."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inside = getattr(node, field, ())
        if isinstance(inside, list):  # not the expression of a lambda
            for statement in inside:
                yield statement
                yield from statements(statement)


def graph(house: str = "opinfo") -> Graph:
    """Which file imports which, by module."""
    found = sources(house)
    return {m: frozenset(imports(s, found)) - {m} for m, s in found.items()}


def rooms(house: str = "opinfo") -> Graph:
    """Which folder imports from which."""
    found, out = sources(house), defaultdict[str, set[str]](set)
    for module, targets in graph(house).items():
        here = found[module].room
        out[here] |= {found[t].room for t in targets} - {here}
    return {room: frozenset(targets) for room, targets in out.items()}


def circles(edges: Graph) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in edges:
        if node not in number:
            visit(node)
    return found


def crowded(house: str = "opinfo") -> dict[str, int]:
    """Folders with too many source files."""
    count: dict[str, int] = defaultdict(int)
    for s in sources(house).values():
        count[s.room] += s.path.name != "__init__.py"
    return {r: n for r, n in count.items() if n > MOST_FILES}


def repeated_basenames(house: str = "opinfo") -> dict[str, list[str]]:
    """Unrelated files with the same name."""
    found = defaultdict[str, list[str]](list)
    for s in sources(house).values():
        if not s.path.name.startswith("__"):
            found[s.path.name].append(str(s.path))
    return {n: paths for n, paths in found.items() if len(paths) > 1 and n not in RELATED}


def repeated_classes() -> dict[str, list[str]]:
    """Public classes with the same name."""
    found = defaultdict[str, list[str]](list)
    for s in sources().values():
        for node in s.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(s.path))
    return {name: paths for name, paths in found.items() if len(paths) > 1}


def median_lines(house: str = "opinfo") -> float:
    """The median length of files that are not a package's `__init__`."""
    files = sources(house).values()
    return statistics.median(s.lines for s in files if s.path.name != "__init__.py")


def main() -> None:
    """Print the facts."""
    for house in ("opinfo", "benchmarks"):
        print(f"{house}: {len(sources(house))} files, median {median_lines(house):.0f} lines")
        for title, lines in _facts(house).items():
            print(f"{len(lines)} {title}", *lines, sep="\n    ")


def _facts(house: str) -> dict[str, list[str]]:
    crowds = [f"{room} {count}" for room, count in crowded(house).items()]
    facts = {
        "circles of files": list(map(" ".join, circles(graph(house)))),
        "circles of folders": list(map(" ".join, circles(rooms(house)))),
        f"folders with more than {MOST_FILES} files": crowds,
        "basenames that are repeated": _listed(repeated_basenames(house)),
    }
    if house == "opinfo":  # each benchmark has a class of rows
        facts["public classes that are repeated"] = _listed(repeated_classes())
    return facts


def _listed(found: Mapping[str, list[str]]) -> list[str]:
    return [f"{name}: {', '.join(paths)}" for name, paths in sorted(found.items())]


if __name__ == "__main__":
    main()
