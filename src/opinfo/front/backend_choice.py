"""`opinfo.dispatch`: assign a model's operators to backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from ..byoc.backend.backend import Backend
from ..byoc.backend.catalog import find, unusable
from ..byoc.building.build_library import on_gpu
from ..byoc.dispatching.dispatch import Dispatched
from ..byoc.dispatching.dispatch import dispatch as dispatch_module
from ..byoc.measure import Measure
from ..byoc.prepare.prepare import prepare
from ..layout.search.constraints import Desired
from .models import as_module

#: Backends used by default on a CPU, if they are installed.
DEFAULT = ("onednn",)


def dispatch(
    model: Any,
    backends: Sequence[str | Backend] | None = None,
    *,
    wants: Desired | str | None = None,
    priority: Mapping[str, int] | None = None,
    force: Mapping[str, str] | None = None,
    measure: Measure | None = None,
) -> Dispatched:
    """Choose layouts and backends for a model, without building anything.

    Args:
        model: A Relax module, lowered or not, or the path of a file; it is not modified.
        backends: Names or `Backend` objects; by default as in `opinfo.compile`.
        wants: Layouts that operators must have, as for `opinfo.plan`. By default, the layouts that
            backends prefer are candidates.
        priority: Priority classes of backends; see `opinfo.byoc.dispatch`.
        force: Operators to send to one backend; see `opinfo.byoc.dispatch`.
        measure: Choose by measured times; see `opinfo.byoc.Measure`.

    Returns:
        The module, and the backend of each operator or why it stays with TVM.

    Raises:
        FrontendError: The file cannot be read.
        CannotForce: An operator cannot go where `force` says.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid or contradicts another.
    """
    chosen = installed() if backends is None else backends
    lowered = prepare(as_module(model, "dispatch"), chosen)
    return dispatch_module(lowered, chosen, priority, force=force, measure=measure, layouts="best",
                           desired=wants)  # fmt: skip


def installed(target: Any = "llvm") -> list[str]:
    """Return the default backends for a target: those of `DEFAULT` that can run."""
    if on_gpu(tvm.target.Target(target)):
        return []
    return [name for name in DEFAULT if unusable(find(name)) is None]
