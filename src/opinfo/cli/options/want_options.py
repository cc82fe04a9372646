"""``--want conv2d=NHWC``: the layouts of operators."""

from __future__ import annotations

from collections.abc import Sequence

from ...layout.search.implementations import IMPLEMENTATIONS


def parse_wants(texts: Sequence[str]) -> dict[str, Sequence[str] | str] | str:
    """``conv2d=NHWC`` and ``conv2d=NHWC,OHWI`` as the layouts of each operator's operands.

    A name without an operator is an implementation for all that it has; it comes alone.
    Raises ``ValueError`` for another form, or for an operator that is named twice.

    >>> parse_wants(["conv2d=NHWC,OHWI"])
    {'conv2d': ['NHWC', 'OHWI']}
    """
    if len(texts) == 1 and texts[0] in IMPLEMENTATIONS:
        return texts[0]
    out: dict[str, Sequence[str] | str] = {}
    for text in texts:
        op, _, layouts = text.partition("=")
        if not op or not layouts:
            raise ValueError(f"--want {text!r} is not of the form conv2d=NHWC or conv2d=NHWC,OHWI")
        if op in out:
            raise ValueError(f"--want names {op!r} twice: {out[op]} and {layouts!r}")
        out[op] = layouts if layouts in IMPLEMENTATIONS else layouts.split(",")
    return out
