"""Check that a library has a kernel for each region on the device of this machine.

A library such as cuDNN may have no engine for an operator that its documentation allows. Code that
exports ``opinfo_check_<symbol>`` makes the kernel of a region for the extents that are known, or
raises why there is none, before anything is run. What it chose meanwhile is kept on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...backend.region import Region
from ...patterns.failure import one_line


class Unplanned(RuntimeError):
    """Regions without a kernel on this device; ``wrong`` says why, by symbol."""

    def __init__(self, wrong: Mapping[str, str]) -> None:
        super().__init__(next(iter(wrong.values())))
        self.wrong = wrong


def check_plans(library: Any, regions: Sequence[Region], device: int = 0) -> None:
    """Raises `Unplanned` if regions of a loaded library have no kernel on a device."""
    wrong: dict[str, str] = {}
    for region in regions:
        name = f"opinfo_check_{region.symbol}"
        if not library.implements_function(name, query_imports=True):
            continue
        try:
            library.get_function(name, query_imports=True)(device)
        except Exception as error:
            wrong[region.symbol] = one_line(error)
    if wrong:
        raise Unplanned(wrong)
