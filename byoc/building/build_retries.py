"""A build that leaves out the regions that do not build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..backend.region import Region
from ..dispatching.dispatch import Dispatcher, warn_of_failures
from ..dispatching.dispatched import Dispatched

T = TypeVar("T")


def build_with_retries(
    dispatcher: Dispatcher,
    finish: Callable[[Dispatched], Dispatched],
    build: Callable[[Dispatched, Sequence[Region]], T],
) -> T:
    """Dispatch and build; regions that do not build are left out with a warning.

    Args:
        dispatcher: Dispatches again without the regions that fail.
        finish: Completes a dispatched module. No region causes what it raises.
        build: Builds the finished module; the compiler, the linker and the loader may raise.

    Returns:
        The result of ``build``.
    """
    while True:
        result = finish(dispatcher.run())
        try:
            built = build(result, [r.placed.region for r in dispatcher.regions])
        except Exception as error:
            if not dispatcher.exclude_unbuildable(error):
                raise
            continue
        warn_of_failures(result)
        return built
