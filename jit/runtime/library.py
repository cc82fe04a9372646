"""The call sites of a loaded library, and their controls in C++."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from ...analysis.support.wording import last_line
from ...byoc.process.temporary_folder import TemporaryFolder
from ..arguments.signature import Signature
from ..kernels.generic_kernel import GenericKernel, identity
from .library_table import STATIC, parsed
from .loaded_memory import cut

MODES = {"generic": 0, "record": 1, "jit": 2}
#: Identity of the file from which this process first loaded each path.
_LOADED: dict[Path, tuple[int, ...]] = {}


@dataclass(frozen=True)
class LoadedSite:
    """A call site of a library; see `specialize_shapes`."""

    place: int
    caller: str
    function: str
    symbols: tuple[str, ...]
    strategy: str
    threshold: int
    likely: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The index of the site and the function that it calls."""
        return f"{self.place}:{self.function}"

    def values(self, key: Sequence[int]) -> dict[str, int]:
        return dict(zip(self.symbols, key, strict=True))


class Sites:
    """The call sites of one library; ``functions`` maps names to PrimFuncs as JSON.

    ``path`` is the file that the library was loaded from, if known.
    """

    def __init__(self, library: Any, path: Path | None = None) -> None:
        self._library, self._path = library, path
        self._identity = None if path is None else identity(path)
        table = parsed(str(self._call("about")()))
        self.target, self.functions = table.target, table.functions
        self.signatures = {f.function: f for f in map(Signature.from_json, table.signatures)}
        self.ranges = table.ranges
        self.sites = tuple(_site(k, s) for k, s in enumerate(table.sites))
        self._next, self._waiting, self._insert, self._drop, self._stats = (
            self._call(n) for n in ("next", "waiting", "insert", "drop", "stats"))  # fmt: skip
        #: See `straight.hpp`.
        self.straight = self._call("straight")

    def _call(self, name: str) -> Any:
        try:
            return self._library.get_function(f"opinfo_jit_{name}", query_imports=True)
        except AttributeError:
            raise ValueError(STATIC) from None

    def generic(self, function: str) -> Any:
        """Return the generic kernel of a function."""
        return self._library.get_function(function, query_imports=True)

    def generic_place(self, function: str) -> GenericKernel | None:
        """Return where another process finds the generic kernel of a function."""
        if self._path is None:
            return None
        return GenericKernel(str(self._path.absolute()), function, self._identity)

    def configure(self, site: LoadedSite, mode: str, shapes: int) -> None:
        """Set the mode of a site, and the number of shapes whose calls it counts."""
        self._call("configure")(site.place, MODES[mode], max(site.threshold, 1), shapes)

    def open(self, waiting: int) -> None:
        """Reset the counts and accept requests; at most ``waiting`` shapes are queued."""
        self._call("open")(waiting)

    def next(self, milliseconds: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the next requested shape and the index of its site.

        The index is ``~place`` for a shape whose kernel raised an error and the generic one did
        not.
        """
        numbers = [int(v) for v in self._next(milliseconds)]
        return (numbers[0], tuple(numbers[1:])) if numbers else None

    def waiting(self) -> list[tuple[int, tuple[int, ...]]]:
        """Return the requested shapes that are not served yet, with the indices of their sites.

        The last one that `next` returned counts until the next call of `next`.
        """
        rows = json.loads(str(self._waiting()))
        return [(int(place), tuple(map(int, key))) for place, *key in rows]

    def insert(self, place: int, key: Sequence[int], kernel: Any, library: str = "",
               name: str = "") -> None:  # fmt: skip
        """Serve a shape with a kernel; one from a loaded library is called directly."""
        self._insert(place, tvm_ffi.Shape(tuple(key)), kernel, library, f"__tvm_ffi_{name}")

    def drop(self, place: int, key: Sequence[int], retry: bool) -> None:
        self._drop(place, tvm_ffi.Shape(tuple(key)), retry)

    def stats(self, place: int, misses: bool = True) -> dict[str, Any]:
        counts: dict[str, Any] = json.loads(self._stats(place, misses))
        return counts

    def close(self) -> None:
        """Make all sites generic, drop their kernels, and wake callers of `next`."""
        self._call("close")()


def loaded(path: str | Path) -> Any:
    """Load a shared library as a TVM module; raises ``ValueError`` if it does not load."""
    if Path(path).is_file() and cut(Path(path)):
        raise ValueError(f"{path} is not a loadable library: the file is truncated")
    try:
        return _loaded(Path(path).resolve())
    except Exception as error:  # what TVM's loader raises
        raise ValueError(f"{path} is not a loadable library: {last_line(error)}") from error


def _loaded(path: Path) -> Any:
    """Load a library, through a copy if the file has changed.

    The loader caches libraries by path and would return the old one.
    """
    if not path.is_file():
        return tvm.runtime.load_module(str(path))
    now = identity(path)
    if now is not None and _LOADED.setdefault(path, now) == now:
        return tvm.runtime.load_module(str(path))
    folder = TemporaryFolder("opinfo-")
    try:
        return tvm.runtime.load_module(shutil.copy(path, folder.path))
    finally:
        folder.remove()


def _site(place: int, row: dict[str, Any]) -> LoadedSite:
    return LoadedSite(place, row["caller"], row["function"], tuple(row["symbols"]),
                      row["strategy"], row["threshold"],
                      tuple(tuple(v) for v in row["likely"]))  # fmt: skip
