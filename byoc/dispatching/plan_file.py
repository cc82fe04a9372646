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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tvm_ffi

from ...analysis.support.checked_json import Json, Malformed, parse
from ...analysis.support.regular import content
from ...layout.model.digit import Digit
from ...layout.model.layout import Layout

FORMAT = 2


class PlanRefused(ValueError):
    """A plan that does not fit the module or the backends; the message says what differs."""


@dataclass(frozen=True)
class PlannedRegion:
    """Ops of one function, by their places among its ``call_tir``, that a backend takes."""

    function: str
    backend: str
    pattern: str
    ops: tuple[int, ...]


Laid = tuple[Layout | None, ...]
"""An op's layouts by parameter of its PrimFunc; None for those that are as given."""


@dataclass(frozen=True)
class DispatchPlan:
    """Which backend has which operators, to be saved and replayed.

    Attributes:
        module: The structural hash of the dispatched module, weights excluded.
        backends: The version of each backend.
        regions: What each backend takes.
        status: The solver's status.
        layouts: By function, the layouts of its ``call_tir`` in order, where layouts were chosen
            too; regions are then those of the module in these layouts.
    """

    module: str
    backends: Mapping[str, str]
    regions: tuple[PlannedRegion, ...]
    status: str
    layouts: Mapping[str, tuple[Laid, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The plan as the file has it."""
        layouts = {f: [[_told(x) for x in op] for op in ops] for f, ops in self.layouts.items()}
        regions = [{**asdict(r), "ops": list(r.ops)} for r in self.regions]
        return {"format": FORMAT, "module": self.module, "backends": dict(self.backends),
                "regions": regions, "status": self.status, "layouts": layouts}  # fmt: skip

    @classmethod
    def from_json(cls, told: Any) -> DispatchPlan:
        """Raises `PlanRefused` for what is not a plan, or of another format."""
        found = told.get("format") if isinstance(told, dict) else None
        if found != FORMAT:
            raise PlanRefused(f"this is no dispatch plan of format {FORMAT}; its format: {found}")
        try:
            return cls._from(Json(told))
        except Malformed as e:
            raise PlanRefused(f"the dispatch plan is malformed: {e}") from e

    @classmethod
    def _from(cls, told: Json) -> DispatchPlan:
        regions = tuple(map(_region, told["regions"].items()))
        backends = {k: v.text() for k, v in told["backends"].fields().items()}
        layouts = {f: tuple(tuple(map(_layout, op.items())) for op in x.items())
                   for f, x in told["layouts"].fields().items()}  # fmt: skip
        return cls(told["module"].text(), backends, regions, told["status"].text(), layouts)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> DispatchPlan:
        """Raises `PlanRefused` for what is not a plan, ``OSError`` if it cannot be read."""
        try:
            return cls.from_json(parse(content(path)).value)
        except (Malformed, PlanRefused) as e:
            raise PlanRefused(f"{path}: {e}") from e

    def check(self, mod: Any, versions: Mapping[str, str]) -> None:
        """Raises `PlanRefused` unless it was made of this module, with these versions."""
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
    for attribute in ("external_mods", "const_name_to_constant"):  # of code that was added before
        mod = mod.without_attr(attribute)
    return f"{tvm_ffi.structural_hash(mod, skip_tensor_content=True):016x}"


def _region(told: Json) -> PlannedRegion:
    function, backend, pattern = (told[k].text() for k in ("function", "backend", "pattern"))
    return PlannedRegion(
        function, backend, pattern, tuple(k.integer() for k in told["ops"].items())
    )


def _told(layout: Layout | None) -> Any:
    if layout is None:
        return None
    return {"dims": [[list(d) for d in dim] for dim in layout.dims], "pad": layout.pad_value}


def _layout(told: Json) -> Layout | None:
    if told.value is None:
        return None
    dims = tuple(tuple(map(_digit, dim.items())) for dim in told["dims"].items())
    pad = told["pad"]
    try:
        return Layout(dims, None if pad.value is None else pad.number())
    except (TypeError, ValueError) as e:  # of digits that are no layout
        raise told.malformed(f"expected a layout: {e}") from e


def _digit(told: Json) -> Digit:
    found = told.items()
    if len(found) != 3:
        raise told.malformed("expected [axis, div, extent]")
    axis, div, extent = found
    return Digit(axis.integer(), div.integer(), None if extent.value is None else extent.integer())
