"""What is claimed of a padded dimension."""

from __future__ import annotations

from dataclasses import dataclass

#: What `Padded.assumes` may list.
FINITE = "the valid elements, and what the kernel computes of them, are finite numbers"


@dataclass(frozen=True)
class Grown:
    """A parameter that grows with the dimension, and along which axes.

    ``content`` is what an input's padding must hold; None is anything, NaN too.
    """

    param: int
    axes: tuple[int, ...]
    content: float | int | None = None


@dataclass(frozen=True)
class Padded:
    """For each value n >= 1 of the dimension ``name`` and each N >= n: the function at N, over
    inputs whose axes are padded from their extents at n to those at N, computes at the indices
    that are valid for n what the function computes at n.

    Other dimensions that are passed as numbers are at least 1 too: who calls the function at N
    sees to it, as the spans of a `Bucket` do.

    Parameters that neither ``inputs`` nor ``outputs`` list do not grow. ``assumes`` are conditions
    on what the valid elements hold; without one it is so for all their values.
    """

    name: str
    inputs: tuple[Grown, ...]
    outputs: tuple[Grown, ...]
    assumes: tuple[str, ...] = ()
