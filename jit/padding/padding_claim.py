"""The claim that is proved about a padded dimension."""

from __future__ import annotations

from dataclasses import dataclass

#: An assumption in `PaddingProof.assumes`.
FINITE = "the valid elements, and the values computed from them, are finite"


@dataclass(frozen=True)
class GrownParameter:
    """A parameter that grows with the dimension, and along which axes.

    ``content`` is the value that an input's padding must hold; None allows any value, even NaN.
    """

    param: int
    axes: tuple[int, ...]
    content: float | int | None = None


@dataclass(frozen=True)
class PaddingProof:
    """Proof that the dimension ``name`` may be padded.

    For all n >= 1 and N >= n: the function at N, over inputs whose axes are padded from their
    extents at n to those at N, computes, at all indices valid for n, the same as the function at n.

    Other dimensions that are passed as scalars must be at least 1; the caller at N ensures that, as
    the spans of a `Bucket` do. Parameters in neither ``inputs`` nor ``outputs`` do not grow.
    ``assumes`` lists conditions on the valid elements; if it is empty, the proof is unconditional.
    """

    name: str
    inputs: tuple[GrownParameter, ...]
    outputs: tuple[GrownParameter, ...]
    assumes: tuple[str, ...] = ()
