"""The database of tuned schedules, by PrimFunc and target, in meta_schedule's format."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import Schedule

from ...analysis.support.files.checked_json import Json, parse
from ...analysis.support.ir.deep_copy import copied
from ...analysis.support.wording import last_line
from ...byoc.process import trust
from ...byoc.schedule import Refusal, Scheduled, schedule
from ..store.kernel_key import fingerprint

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
SEARCHED = "opinfo_searched.json"
#: Attributes of a kernel that its code depends on.
KEPT = ("s_tir", "tirx.noalias")
#: TVM records failed candidates with a time above this, in seconds.
FAILED = 1e9


class TuneError(ValueError):
    """The database cannot be used; the message says why."""


def tuned(database: Any, func: Any, target: Any) -> Any | None:
    """Return a static PrimFunc with its fastest tuned schedule, or None.

    ``database`` is a folder that `tune` wrote, or an `OpenDatabase`.
    """
    schedules = database if isinstance(database, OpenDatabase) else OpenDatabase(database)
    record = schedules.best(func, searchable(target))
    if record is None:
        return None
    replayed = Schedule(tvm.IRModule({"main": isolated(func)}))
    record.trace.apply_to_schedule(replayed, remove_postproc=False)
    out = replayed.mod["main"].without_attr("global_symbol")
    for name, value in (func.attrs or {}).items():
        out = out.with_attr(name, value)
    return out.with_attr("tirx.is_scheduled", True)


def scheduled(
    bound: Any, target: Any, database: OpenDatabase | None = None, winograd: bool = False
) -> Scheduled | Refusal:
    """Schedule a static PrimFunc by tuning if that is faster, else by a rule.

    ``winograd`` permits minimal filtering by a rule; see `schedule`.
    """
    func = None
    if database is not None and database.searched_for(bound, searchable(target)).wins:
        func = tuned(database, bound, target)
    return (
        schedule(bound, target, winograd=winograd) if func is None else Scheduled(func, ("tuned",))
    )


@dataclass(frozen=True)
class Searched:
    """The number of trials, and microseconds of the best candidate and of the rule's schedule.

    Both times are measured alternately, since the best of many trials looks better than it is.
    """

    trials: int = 0
    microseconds: float | None = None
    structure: float | None = None

    @property
    def wins(self) -> bool:
        """Whether the best candidate is faster than the rule's schedule."""
        if self.microseconds is None:
            return False
        return self.structure is None or self.microseconds < self.structure


class OpenDatabase:
    """An open database; with ``exclusive``, this process is its only writer.

    Raises:
        TuneError: The database cannot be read, or other users can write it. Its traces determine
            code, so it must be trusted.
    """

    def __init__(self, folder: str | Path, exclusive: bool = False) -> None:
        self.folder = Path(folder)
        with contextlib.suppress(FileNotFoundError):
            if why := trust.refusal(self.folder):
                raise TuneError(f"the tuning database is not used: {why}")
        self._raw = b"".join(read(self.folder / name) for name in (RECORDS, SEARCHED))
        try:
            self.database = _opened(self.folder) if exclusive else _copied(self.folder)
            data = parse(read(self.folder / SEARCHED) or b"{}").fields()
            self.searched = {k: _searched(v) for k, v in data.items()}
        except Exception as error:  # TVM may raise anything
            raise TuneError(f"{folder} is not a tuning database: {last_line(error)}") from error

    @property
    def version(self) -> str:
        """A digest that changes whenever the fastest schedules may change."""
        return hashlib.blake2b(self._raw, digest_size=8).hexdigest()

    def records(self, func: Any, target: Any) -> list[Any]:
        """Return the records of a PrimFunc for a target, fastest first."""
        mod = tvm.IRModule({"main": isolated(func)})
        if not self.database.has_workload(mod):
            return []
        fastest = self.database.get_top_k(self.database.commit_workload(mod), 1 << 30)
        return [r for r in fastest if _ran(r) and r.target is not None and same(r.target, target)]

    def best(self, func: Any, target: Any) -> Any | None:
        return next(iter(self.records(func, target)), None)

    def trials(self, func: Any, target: Any) -> int:
        searched = self.searched_for(func, target).trials
        return max(searched, len(self.records(func, target)))

    def searched_for(self, func: Any, target: Any) -> Searched:
        return self.searched.get(self._key(func, target), Searched())

    def mark(self, func: Any, target: Any, result: Searched) -> None:
        """Record a finished search, atomically."""
        self.searched[self._key(func, target)] = result
        data = {k: asdict(v) for k, v in self.searched.items()}
        part = self.folder / f".{SEARCHED}-{os.getpid()}"
        part.write_text(json.dumps(data, indent=1) + "\n")
        part.replace(self.folder / SEARCHED)

    def _key(self, func: Any, target: Any) -> str:
        plain = json.dumps(_plain(target), sort_keys=True)
        return f"{fingerprint.__wrapped__(isolated(func))} {plain}"


def _searched(data: Json) -> Searched:
    microseconds, structure = (
        None if data[name].value is None else data[name].number()
        for name in ("microseconds", "structure")
    )
    return Searched(data["trials"].integer(), microseconds, structure)


def isolated(func: Any) -> Any:
    """Return a copy named ``main`` with only the attributes in `KEPT`.

    It is a copy because a schedule modifies its function in place.
    """
    copy = copied(func)
    for name in [str(k) for k in copy.attrs.keys()] if copy.attrs else []:
        if name not in KEPT:
            copy = copy.without_attr(name)
    return copy.with_attr("global_symbol", "main")


def searchable(target: Any, cores: int = 1) -> Any:
    """Return a target with the number of cores, which meta_schedule requires."""
    target = tvm.target.Target(target)
    if str(target.kind.name) != "llvm" or "num-cores" in target.attrs:
        return target
    return tvm.target.Target({**dict(target.export()), "num-cores": cores})


def same(a: Any, b: Any) -> bool:
    """Return whether two targets generate the same code."""
    return _plain(a) == _plain(b)


def _opened(folder: Path) -> Any:
    from tvm.s_tir.meta_schedule.database import JSONDatabase

    return JSONDatabase(*(str(folder / name) for name in (WORKLOADS, RECORDS)))


def _copied(folder: Path) -> Any:
    """Copy the complete lines only, because another process may be writing one."""
    with tempfile.TemporaryDirectory(prefix="opinfo-tuned-") as name:
        # Records first, because their workloads are written before them.
        for file in (RECORDS, WORKLOADS):
            raw = trust.read(folder / file)
            (Path(name) / file).write_bytes(raw[: raw.rfind(b"\n") + 1])
        return _opened(Path(name))


def _ran(record: Any) -> bool:
    """Return whether a candidate ran; TVM's tuner writes an absurd time for failures."""
    seconds = [float(s) for s in record.run_secs or ()]
    return bool(seconds) and min(seconds) < FAILED


def _plain(target: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in target.export().items() if k not in ("num-cores", "tag")}


def read(path: Path) -> bytes:
    """Read a file; b"" if it does not exist. Raises `TuneError` if other users can write it."""
    try:
        return trust.read(path)
    except FileNotFoundError:
        return b""
    except trust.Untrusted as error:
        raise TuneError(f"the tuning database is not used: {path}: {error}") from error
