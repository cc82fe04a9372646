"""Recordings of the shapes that occur at call sites, as input of tuning."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...analysis.support.files.atomic_replace import replacing
from ...analysis.support.files.checked_json import Json, Malformed, parse
from ...analysis.support.files.regular_files import content
from ...analysis.support.warn import warn
from ...analysis.support.wording import last_line

if TYPE_CHECKING:
    from rich.table import Table

FORMAT = 1


class RecordError(ValueError):
    """A file is not a recording; the message says which and why."""


@dataclass(frozen=True, order=True)
class Shape:
    """A shape that occurred: the ``values`` of a function's symbolic extents, by name.

    ``function`` is the hash of the PrimFunc, ``site`` the name of the call site.
    """

    site: str
    function: str
    values: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.site}: {', '.join(f'{k}={v}' for k, v in self.values)}"


class Recording:
    """Counts of shapes; thread-safe.

    Args:
        counts: How often each shape occurred.
        functions: The PrimFuncs as JSON, by their hash.
    """

    def __init__(
        self, counts: Mapping[Shape, int] | None = None, functions: Mapping[str, str] | None = None
    ) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[Shape] = Counter(dict(counts or {}))
        self.functions = dict(functions or {})

    def add(self, site: str, function: str, values: Mapping[str, int], count: int = 1) -> None:
        """Count calls of a shape.

        Args:
            site: The name of the call site.
            function: The hash of its PrimFunc.
            values: The value of each symbolic size.
            count: How many calls.

        Raises:
            ValueError: The count is below 1.
        """
        if count < 1:
            raise ValueError(f"Recording.add: count must be positive, got {count}")
        shape = Shape(site, function, tuple((k, int(v)) for k, v in values.items()))
        with self._lock:
            self._counts[shape] += count

    def define(self, function: str, text: str) -> None:
        """Add a PrimFunc as JSON, so that tuning does not need the model."""
        with self._lock:
            self.functions[function] = text

    def prim_funcs(self) -> dict[str, Any]:
        """Return the PrimFuncs by hash; raises `RecordError` for anything else."""
        import tvm

        out = {}
        for name, text in self.functions.items():
            try:
                out[name] = tvm.ir.load_json(text)
            except Exception as error:  # TVM may raise anything
                raise RecordError(
                    f"function {name[:12]} cannot be read: {last_line(error)}"
                ) from error
            if not isinstance(out[name], tvm.tirx.PrimFunc):
                raise RecordError(
                    f"function {name[:12]}: expected a PrimFunc, got {type(out[name]).__name__}"
                )
        return out

    def counts(self) -> dict[Shape, int]:
        """Return a copy of the counts."""
        with self._lock:
            return dict(self._counts)

    def top(self, n: int | None = None) -> list[tuple[Shape, int]]:
        """Return the `n` most frequent shapes with their counts; ties by name."""
        return sorted(self.counts().items(), key=lambda item: (-item[1], item[0]))[:n]

    def __len__(self) -> int:
        """Return the number of distinct shapes."""
        return len(self.counts())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recording):
            return NotImplemented
        return self.counts() == other.counts() and self.functions == other.functions

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Recording({len(self)} shapes, {sum(self.counts().values())} calls)"

    @classmethod
    def merged(cls, several: Iterable[Recording]) -> Recording:
        """Return the sum of several recordings."""
        total: Counter[Shape] = Counter()
        functions: dict[str, str] = {}
        for recording in several:
            total.update(recording.counts())
            functions |= recording.functions
        return cls(total, functions)

    def save(self, path: str | Path) -> None:
        """Write the recording as JSON, atomically; raises ``OSError``."""
        path = Path(path)
        rows = [{"site": s.site, "function": s.function, "values": dict(s.values), "count": n}
                for s, n in self.top()]  # fmt: skip
        data = {"format": FORMAT, "functions": self.functions, "shapes": rows}
        text = json.dumps(data, indent=1)
        with replacing(path) as part, part.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Read a recording.

        Raises:
            OSError: The file cannot be read.
            RecordError: The file is not a recording.
        """
        try:
            data = parse(content(path))
            if data["format"].value != FORMAT:
                raise data["format"].malformed(f"expected {FORMAT}, the format of a recording")
            out = cls({}, {k: v.text() for k, v in data["functions"].fields().items()})
            for row in data["shapes"].items():
                out.add(*_row(row))
        except Malformed as error:
            raise RecordError(f"{path} is not a recording of shapes: {error}") from error
        return out

    def table(self, n: int | None = None) -> Table:
        """Return a table of the `n` most frequent shapes."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, header_style="bold", pad_edge=False)
        for name in ("site", "function", "shape"):
            table.add_column(name)
        for name in ("calls", "share"):
            table.add_column(name, justify="right")
        total = sum(self.counts().values())
        for shape, count in self.top(n):
            values = ", ".join(f"{k}={v}" for k, v in shape.values)
            table.add_row(escape(shape.site), shape.function[:12], escape(values), f"{count:,}",
                          f"{count / total:.1%}")  # fmt: skip
        return table

    def told(self, n: int | None = None) -> Table:
        """Return `table`, under its old name."""
        warn("use Recording.table instead of Recording.told", DeprecationWarning)
        return self.table(n)


def _row(row: Json) -> tuple[str, str, dict[str, int], int]:
    values = {k: v.integer() for k, v in row["values"].fields().items()}
    count = row["count"]
    if count.integer() < 1:
        raise count.malformed("expected a positive integer")
    return row["site"].text(), row["function"].text(), values, count.integer()
