"""The matches of a request: chains and coarse regions of all backends."""

from __future__ import annotations

from collections.abc import Sequence

from ..backend.match import Match
from ..matching.force import allowed
from .dispatch_request import DispatchRequest


def match_regions(request: DispatchRequest) -> list[Match]:
    """All matches that the rules allow. Raises `CannotForce` if a forced operator has none."""
    lowered, rules, backends = request.lowered, request.rules, request.backends
    matches = [*lowered.matches(backends), *lowered.coarse(backends, rules)]
    return allowed(list(filter(rules.usable, matches)), rules.forced, lowered.infos, backends)


def match_remaining(
    request: DispatchRequest, chosen: Sequence[Match], earlier: Sequence[Match]
) -> list[Match]:
    """Coarse regions of the operators that a choice leaves, except those already known."""
    offloaded = [m for m in chosen if m.backend != "tvm"]
    regions = request.lowered.coarse(request.backends, request.rules, offloaded)
    seen = {(m.backend, m.pattern, m.ops) for m in earlier}
    return [m for m in filter(request.rules.usable, regions)
            if (m.backend, m.pattern, m.ops) not in seen]  # fmt: skip
