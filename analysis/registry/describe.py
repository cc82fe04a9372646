"""A list of the recognisers, for people: which there are, from where, and which were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ..support import plugins
from .registry import Recogniser, identity, left_out, registered


@dataclass(frozen=True)
class RecogniserInfo:
    """A recogniser, or a plug-in that could not be loaded.

    Attributes:
        name: The name that it is registered under.
        precedence: The order of recognisers: lower is asked earlier; None if it could not be
            loaded.
        operators: The operators that it may propose.
        distribution: The package that it comes from; empty for one that this process registered.
        distribution_version: That package's version.
        unavailable: Why it could not be loaded; None if it was.
    """

    name: str
    precedence: int | None
    operators: tuple[str, ...]
    distribution: str
    distribution_version: str
    unavailable: str | None = None


def list_recognisers() -> tuple[RecogniserInfo, ...]:
    """Return all recognisers in the order they are asked, then plug-ins that failed to load.

    Returns:
        One `RecogniserInfo` for each.
    """
    outside = plugins.installed(plugins.RECOGNISERS)
    failed = left_out()
    loaded = [p for p in outside if p not in failed]
    return (
        *(_described(r, loaded) for r in registered()),
        *(RecogniserInfo(p.name, None, (), p.distribution, p.version, why)
          for p, why in failed.items()),
    )  # fmt: skip


def _described(r: Recogniser, loaded: Sequence[plugins.Plugin]) -> RecogniserInfo:
    owner = next((p for p in loaded if p.owns(identity(r.run)[0])), None)
    distribution, number = ("", "") if owner is None else (owner.distribution, owner.version)
    if r.built_in:
        distribution, number = "opinfo", version("opinfo")
    return RecogniserInfo(r.name, r.precedence, r.ops, distribution, number)
