"""The regions of chosen matches, and their code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import relax

from ...analysis.support.progress import stage
from ..backend.backend import Backend, Code
from ..backend.match import Match
from ..backend.region import Placed, Region, region
from ..codegen.call_converters import converted, converter
from ..codegen.failing_regions import culprits
from ..matching.lowered import Lowered
from ..patterns.failure import Failure, Fault, one_line


@dataclass(frozen=True)
class AssignedRegion:
    """A match, and the region that its backend converts."""

    match: Match
    placed: Placed

    @property
    def symbol(self) -> str:
        return self.placed.region.symbol


@dataclass(frozen=True)
class ConvertedRegions:
    """The code of regions, and what could not be converted.

    Attributes:
        codes: One for each backend, or more if it cannot convert all its regions at once.
        faults: Why regions could not be converted, by symbol.
        failures: Backends that could only convert regions one by one.
    """

    codes: Sequence[Code]
    faults: Mapping[str, Fault]
    failures: Sequence[Failure]


def assign_regions(
    lowered: Lowered, matches: Sequence[Match], backends: Sequence[Backend]
) -> list[AssignedRegion]:
    """The regions of matches of backends, under symbols that are free in the module."""
    merges = {b.name: b.merges for b in backends}
    offloaded = [m for m in matches if m.backend != "tvm"]
    return [AssignedRegion(m, region(f"{m.backend}_{k}", m.ops, lowered.infos, merges[m.backend]))
            for k, m in enumerate(offloaded, _first_free_number(lowered.mod))]  # fmt: skip


def convert_regions(
    regions: Sequence[AssignedRegion], backends: Sequence[Backend]
) -> ConvertedRegions:
    """Let each backend convert its regions; a converter that raises loses only its regions."""
    by_name = {b.name: b for b in backends}
    codes: list[Code] = []
    faults: dict[str, Fault] = {}
    failures: list[Failure] = []
    assigned = by_backend(regions)
    for k, (name, part) in enumerate(assigned.items()):
        stage("generating code of backend", k, len(assigned))
        new_codes, bad, together = converted(by_name[name], part)
        codes += new_codes
        faults |= bad
        if together is not None and not bad:
            reason = f"{together.reason}; each region is converted alone"
            failures.append(Failure(name, together.stage, reason))
    return ConvertedRegions(codes, faults, failures)


def find_unbuildable(
    regions: Sequence[AssignedRegion], backends: Sequence[Backend], error: Exception
) -> dict[str, Fault]:
    """The faults of regions that do not build, by symbol.

    Args:
        regions: All regions of a module.
        backends: The backends of these regions.
        error: The exception of the build with all of them.

    Raises:
        Unbuildable: Not even a module without regions builds.
    """
    by_name = {b.name: b for b in backends}
    by_symbol = {r.symbol: by_name[r.match.backend] for r in regions}
    faults = culprits([r.placed.region for r in regions], converter(by_symbol), error)
    if faults:
        return faults
    fault = Fault("build", f"{one_line(error)} (together with the code that TVM generates)")
    return dict.fromkeys(by_symbol, fault)


def by_backend(regions: Sequence[AssignedRegion]) -> dict[str, list[Region]]:
    """The regions of each backend, in the order of their first regions."""
    out: dict[str, list[Region]] = {}
    for assigned in regions:
        out.setdefault(assigned.match.backend, []).append(assigned.placed.region)
    return out


def _first_free_number(mod: Any) -> int:
    """A number above those of all regions that an earlier dispatch put into the module."""
    names: list[str] = []
    for func in mod.functions.values():
        tvm_ffi.structural_walk(func, (relax.ExternFunc, lambda e: names.append(e.global_symbol)))
    numbers = [n.rpartition("_")[2] for n in names]
    return max((int(n) + 1 for n in numbers if n.isdecimal()), default=0)
