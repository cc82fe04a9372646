"""A dispatch plan as JSON: the backend of each operator of each function.

    result = dispatch(mod, ["onednn"])
    result.plan.save("plan.json")
    replay(mod, DispatchPlan.load("plan.json"))      # its module equals result.module

A plan is not trusted. Replaying checks that each region matches its pattern, so a plan that was
edited or belongs to another module is refused and never gives a wrong module. Weights do not matter
to a plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tvm_ffi

from ....analysis.support.files.checked_json import Json, Malformed, parse
from ....analysis.support.files.regular_files import content
from ....layout.model.digit import Digit
from ....layout.model.layout import Layout

FORMAT = 2
#: The pattern of a region that is the file which the module was loaded from.
FILE = "file"


class PlanRefused(ValueError):
    """A plan does not fit the module or the backends; the message says what differs."""


@dataclass(frozen=True)
class PlannedRegion:
    """A region: ``ops`` are positions among the ``call_tir`` of a function."""

    function: str
    backend: str
    pattern: str
    ops: tuple[int, ...]


Laid = tuple[Layout | None, ...]
"""The layouts of an op by parameter of its PrimFunc; None for those that stay unchanged."""


@dataclass(frozen=True)
class DispatchPlan:
    """The operators that each backend takes, to save and replay.

    Attributes:
        module: The structural hash of the dispatched module, weights excluded.
        backends: The version of each backend.
        regions: The regions of the backends.
        status: The solver's status.
        layouts: For each function, the layouts of its ``call_tir`` in order; empty if layouts were
            not planned. The regions refer to the module in these layouts.
        file: The digest of the file that the module was loaded from, if a backend has the file
            instead of the module; else empty. `opinfo.compile` replays such a plan.
    """

    module: str
    backends: Mapping[str, str]
    regions: tuple[PlannedRegion, ...]
    status: str
    layouts: Mapping[str, tuple[Laid, ...]] = field(default_factory=dict)
    file: str = ""

    def to_json(self) -> dict[str, Any]:
        """The plan in the form of its file."""
        layouts = {f: [[_to_json(x) for x in op] for op in ops] for f, ops in self.layouts.items()}
        regions = [{**asdict(r), "ops": list(r.ops)} for r in self.regions]
        out = {"format": FORMAT, "module": self.module, "backends": dict(self.backends),
               "regions": regions, "status": self.status, "layouts": layouts}  # fmt: skip
        return {**out, "file": self.file} if self.file else out

    @classmethod
    def from_json(cls, data: Any) -> DispatchPlan:
        """The plan of a parsed file. Raises `PlanRefused` for anything else, or another format."""
        version = data.get("format") if isinstance(data, dict) else None
        if version != FORMAT:
            raise PlanRefused(f"expected a dispatch plan of format {FORMAT}, got format {version}")
        try:
            return cls._from(Json(data))
        except Malformed as error:
            raise PlanRefused(f"the dispatch plan is malformed: {error}") from error

    @classmethod
    def _from(cls, data: Json) -> DispatchPlan:
        regions = tuple(map(_region, data["regions"].items()))
        backends = {k: v.text() for k, v in data["backends"].fields().items()}
        layouts = {f: tuple(tuple(map(_layout, op.items())) for op in x.items())
                   for f, x in data["layouts"].fields().items()}  # fmt: skip
        file = data["file"].text() if "file" in data.fields() else ""
        return cls(data["module"].text(), backends, regions, data["status"].text(), layouts, file)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> DispatchPlan:
        """Read a plan. Raises `PlanRefused` for anything else, ``OSError`` if it cannot be read."""
        try:
            return cls.from_json(parse(content(path)).value)
        except (Malformed, PlanRefused) as error:
            raise PlanRefused(f"{path}: {error}") from error

    def check(self, mod: Any, versions: Mapping[str, str]) -> None:
        """Check that the plan is of a module and of versions of backends.

        Args:
            mod: The module.
            versions: The version of each requested backend.

        Raises:
            PlanRefused: It is not.
        """
        current = fingerprint(mod)
        if current != self.module:
            raise PlanRefused(f"the plan belongs to another module: its hash is {self.module}, "
                              f"the hash of this module is {current}")  # fmt: skip
        for region in self.regions:
            if region.backend not in self.backends:
                raise PlanRefused(f"the plan names no version of {region.backend}")
        for name, version in self.backends.items():
            if name not in versions:
                raise PlanRefused(f"the plan needs {name}, which is not a requested backend")
            if versions[name] != version:
                raise PlanRefused(f"the plan was made with {name} {version or '(no version)'}, "
                                  f"got {versions[name] or 'no version'}")  # fmt: skip


def fingerprint(mod: Any) -> str:
    """The structural hash of a module, equal in all processes; weights do not count."""
    for attribute in (
        "external_mods",
        "const_name_to_constant",
    ):  # code that an earlier dispatch added
        mod = mod.without_attr(attribute)
    return f"{tvm_ffi.structural_hash(mod, skip_tensor_content=True):016x}"


def _region(data: Json) -> PlannedRegion:
    function, backend, pattern = (data[k].text() for k in ("function", "backend", "pattern"))
    return PlannedRegion(
        function, backend, pattern, tuple(k.integer() for k in data["ops"].items())
    )


def _to_json(layout: Layout | None) -> Any:
    if layout is None:
        return None
    return {"dims": [[list(d) for d in dim] for dim in layout.dims], "pad": layout.pad_value}


def _layout(data: Json) -> Layout | None:
    if data.value is None:
        return None
    dims = tuple(tuple(map(_digit, dim.items())) for dim in data["dims"].items())
    pad = data["pad"]
    try:
        return Layout(dims, None if pad.value is None else pad.number())
    except (TypeError, ValueError) as error:  # the digits do not form a layout
        raise data.malformed(f"expected a layout: {error}") from error


def _digit(data: Json) -> Digit:
    numbers = data.items()
    if len(numbers) != 3:
        raise data.malformed("expected [axis, div, extent]")
    axis, div, extent = numbers
    return Digit(axis.integer(), div.integer(), None if extent.value is None else extent.integer())
