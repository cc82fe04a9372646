"""List the recognisers, with their origin, and the plug-ins that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ..support import plugins
from .built_in import identity
from .registry import Recogniser, left_out, registered


@dataclass(frozen=True)
class RecogniserInfo:
    """A recogniser, or a plug-in that could not be loaded.

    Attributes:
        name: Its name, or the name of the entry point that could not be loaded.
        precedence: Its precedence; lower values run first. None for an entry point.
        operators: Full names of the operators that it may propose (its ``ops``); empty for any.
        distribution: The package that it comes from; empty if this process registered it.
        distribution_version: The version of that package.
        unavailable: Why the plug-in could not be loaded; None if it was.
    """

    name: str
    precedence: int | None
    operators: tuple[str, ...]
    distribution: str
    distribution_version: str
    unavailable: str | None = None


def list_recognisers() -> tuple[RecogniserInfo, ...]:
    """List the recognisers that are built in, come from packages, or are registered here.

    Returns:
        All recognisers in the order in which they are called, then the plug-ins that could not be
        loaded.
    """
    outside = plugins.installed(plugins.RECOGNISERS)
    failed = left_out()
    loaded = [p for p in outside if p not in failed]
    return (
        *(_described(r, loaded) for r in registered()),
        *(RecogniserInfo(p.name, None, (), p.distribution, p.version, why)
          for p, why in failed.items()),
    )  # fmt: skip


def _described(recogniser: Recogniser, loaded: Sequence[plugins.Plugin]) -> RecogniserInfo:
    owner = next((p for p in loaded if p.owns(identity(recogniser.run)[0])), None)
    distribution, distribution_version = (
        ("", "") if owner is None else (owner.distribution, owner.version)
    )
    if recogniser.built_in:
        distribution, distribution_version = "opinfo", version("opinfo")
    return RecogniserInfo(
        recogniser.name, recogniser.precedence, recogniser.ops, distribution, distribution_version
    )
