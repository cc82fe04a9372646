"""The sites of a loaded library: what they are, and the controls that C++ gives."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from ...byoc.patterns.failure import last_line
from ...byoc.process.folder import Folder
from ..arguments.signature import Signature
from .library_table import parsed
from .pages import cut

MODES = {"generic": 0, "record": 1, "jit": 2}
#: What a path was when this process loaded a library from it first.
_LOADED: dict[Path, tuple[int, ...]] = {}


@dataclass(frozen=True)
class LoadedSite:
    """A site of a library, see `specialize_shapes`."""

    place: int
    caller: str
    function: str
    symbols: tuple[str, ...]
    strategy: str
    threshold: int
    likely: tuple[tuple[int, ...], ...]

    @property
    def name(self) -> str:
        """The place among the sites and the function that it calls."""
        return f"{self.place}:{self.function}"

    def values(self, key: Sequence[int]) -> dict[str, int]:
        return dict(zip(self.symbols, key, strict=True))


class Sites:
    """The sites of one library; ``functions`` are their PrimFuncs as JSON, by name."""

    def __init__(self, library: Any) -> None:
        self._library = library
        table = parsed(str(self._call("about")()))
        self.target, self.functions = table.target, table.functions
        self.signatures = {f.function: f for f in map(Signature.from_json, table.signatures)}
        self.ranges, self.told = table.ranges, table.told
        self.sites = tuple(_site(k, s) for k, s in enumerate(table.sites))
        self._next, self._insert, self._drop, self._stats = (
            self._call(n) for n in ("next", "insert", "drop", "stats"))  # fmt: skip
        #: See `straight.hpp`.
        self.straight = self._call("straight")

    def _call(self, name: str) -> Any:
        try:
            return self._library.get_function(f"opinfo_jit_{name}", query_imports=True)
        except AttributeError:
            raise ValueError("the library does not tell of its call sites: it was not made by "
                             "opinfo's SpecializeShapes") from None  # fmt: skip

    def configure(self, site: LoadedSite, mode: str, shapes: int) -> None:
        """Which mode a site is in, and of how many shapes it counts calls."""
        self._call("configure")(site.place, MODES[mode], max(site.threshold, 1), shapes)

    def open(self, waiting: int) -> None:
        """Count from nothing and take requests; so many shapes wait for the compiler at most."""
        self._call("open")(waiting)

    def next(self, milliseconds: int) -> tuple[int, tuple[int, ...]] | None:
        """The next shape that is wanted, with the place of its site; with ``~place``, a shape whose
        kernel raised an error where the generic one does not."""
        found = [int(v) for v in self._next(milliseconds)]
        return (found[0], tuple(found[1:])) if found else None

    def insert(self, place: int, key: Sequence[int], kernel: Any, library: str = "",
               name: str = "") -> None:  # fmt: skip
        """Serve a shape by a kernel; one that was loaded from a library is called directly."""
        self._insert(place, tvm_ffi.Shape(tuple(key)), kernel, library, f"__tvm_ffi_{name}")

    def drop(self, place: int, key: Sequence[int], again: bool) -> None:
        self._drop(place, tvm_ffi.Shape(tuple(key)), again)

    def stats(self, place: int, misses: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._stats(place, misses))
        return found

    def close(self) -> None:
        """All sites generic and without kernels; who waits in `next` returns."""
        self._call("close")()


def loaded(path: str | Path) -> Any:
    """A shared library as a module of TVM; ``ValueError`` where it does not load here."""
    if Path(path).is_file() and cut(Path(path)):
        raise ValueError(f"{path} is no library that loads here: its end is missing")
    try:
        return _loaded(Path(path).resolve())
    except Exception as e:  # what TVM's loader raises
        raise ValueError(f"{path} is no library that loads here: {last_line(e)}") from e


def _loaded(path: Path) -> Any:
    """The loader gives what it has by a name, which may have been written anew since: then a copy
    is loaded, whose file may go at once."""
    if not path.is_file():
        return tvm.runtime.load_module(str(path))
    told = path.stat()
    now = told.st_dev, told.st_ino, told.st_mtime_ns, told.st_size
    if _LOADED.setdefault(path, now) == now:
        return tvm.runtime.load_module(str(path))
    folder = Folder("opinfo-")
    try:
        return tvm.runtime.load_module(shutil.copy(path, folder.path))
    finally:
        folder.remove()


def _site(place: int, told: dict[str, Any]) -> LoadedSite:
    return LoadedSite(place, told["caller"], told["function"], tuple(told["symbols"]),
                      told["strategy"], told["threshold"],
                      tuple(tuple(v) for v in told["likely"]))  # fmt: skip
