"""The argument ``shapes`` of `opinfo.compile`: a strategy, a configuration, or dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax

from ...jit.config.named_dims import dimension_names, resolved
from ...jit.config.strategy import Config, Dim, Strategy, checked_config

#: One extent, ``(low, high)``, or ``(low, high, multiple)``.
Extents = int | tuple[int, int] | tuple[int, int, int]


def configured(
    mod: tvm.IRModule, shapes: Config | Strategy | str | Mapping[str, Dim | Extents] | None
) -> tuple[tvm.IRModule, Config | None]:
    """Bind dimensions with a single extent, and return the configuration of the others.

    The configuration is None if no symbolic dimension remains.

    Raises:
        ValueError: ``shapes`` is invalid, or names an unknown dimension.
    """
    if shapes is None or not isinstance(shapes, Mapping):
        return mod, None if shapes is None else checked_config(shapes)
    dims = {name: _dim(name, extents) for name, extents in shapes.items()}
    named = resolved(Config(dims=dims), mod).dims
    fixed = {name: d.low for name, d in named.items() if d.low == d.high}
    ranged = {name: d for name, d in named.items() if name not in fixed}
    bound = relax.transform.BindSymbolicVars(fixed)(mod) if fixed else mod
    return bound, Config(dims=ranged) if dimension_names(bound) else None


def _dim(name: str, extents: Any) -> Dim:
    """Convert ``8``, ``(1, 8)`` or ``(8, 64, 8)`` to a `Dim`."""
    if isinstance(extents, Dim):
        return extents
    values = extents if isinstance(extents, tuple) else (extents, extents)
    numbers = all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    if not numbers or len(values) not in (2, 3):
        raise ValueError(f"shapes: {name}: expected an extent, (low, high), (low, high, multiple) "
                         f"or a Dim, got {extents!r}")  # fmt: skip
    return Dim(*values)
