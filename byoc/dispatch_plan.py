"""A dispatch as JSON: which ops of which function each backend has, to be done again.

    done = dispatch(mod, ["onednn"])
    done.plan.save("plan.json")
    again = replay(mod, DispatchPlan.load("plan.json"))      # again.module is done.module

A plan says nothing that is believed: that each region matches the pattern that it names is checked
again, so that a plan that was edited, or is of another module, is refused and never gives a wrong
module. Weights are no part of what a plan is for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm_ffi

FORMAT = 1


class PlanRefused(ValueError):
    """A plan that is not for this module or these backends; the message says what differs."""


@dataclass(frozen=True)
class PlannedRegion:
    """Ops of one function, by their places among its ``call_tir``, that a backend takes."""

    function: str
    backend: str
    pattern: str
    ops: tuple[int, ...]


@dataclass(frozen=True)
class DispatchPlan:
    """``module``: the structural hash of what was dispatched. ``backends``: their versions."""

    module: str
    backends: Mapping[str, str]
    regions: tuple[PlannedRegion, ...]
    status: str

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, told: Any) -> DispatchPlan:
        """Raises :class:`PlanRefused` for what is not a plan, or of another format."""
        found = told.get("format") if isinstance(told, dict) else None
        if found != FORMAT:
            raise PlanRefused(f"this is no dispatch plan of format {FORMAT}; its format: {found}")
        try:
            regions = tuple(_region(r) for r in told["regions"])
            backends = {_is(k, str): _is(v, str) for k, v in _is(told["backends"], dict).items()}
            module, status = (_is(told[k], str) for k in ("module", "status"))
            return cls(module, backends, regions, status)
        except (KeyError, TypeError) as e:
            raise PlanRefused(f"the dispatch plan is malformed: {e}") from e

    def save(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> DispatchPlan:
        """Raises :class:`PlanRefused` for what is not a plan, ``OSError`` if it cannot be read."""
        try:
            return cls.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except (json.JSONDecodeError, UnicodeDecodeError) as e:
            raise PlanRefused(f"{path} is no JSON: {e}") from e

    def check(self, mod: Any, versions: Mapping[str, str]) -> None:
        """Raises :class:`PlanRefused` unless it was made of this module, with these versions."""
        here = fingerprint(mod)
        if here != self.module:
            raise PlanRefused(f"the plan is of another module: its hash is {self.module}, "
                              f"this one's is {here}")  # fmt: skip
        for r in self.regions:
            if r.backend not in self.backends:
                raise PlanRefused(f"the plan names no version of {r.backend}")
        for name, version in self.backends.items():
            if name not in versions:
                raise PlanRefused(f"the plan needs {name}, which is not among the backends")
            if versions[name] != version:
                raise PlanRefused(f"the plan was made with {name} {version or 'of no version'}, "
                                  f"this is {versions[name] or 'of no version'}")  # fmt: skip


def fingerprint(mod: Any) -> str:
    """The structural hash of a module, the same in every process; weights do not count."""
    return f"{tvm_ffi.structural_hash(mod, skip_tensor_content=True):016x}"


def _region(told: Any) -> PlannedRegion:
    names = (_is(told[k], str) for k in ("function", "backend", "pattern"))
    function, backend, pattern = names
    return PlannedRegion(function, backend, pattern,
                         tuple(_is(k, int) for k in _is(told["ops"], list)))  # fmt: skip


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value
