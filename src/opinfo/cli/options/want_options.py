"""Parse ``--want conv2d=NHWC``, the layouts of operators."""

from __future__ import annotations

from collections.abc import Sequence

from ...layout.search.implementations import IMPLEMENTATIONS


def parse_wants(texts: Sequence[str]) -> dict[str, Sequence[str] | str] | str:
    """Parse ``conv2d=NHWC`` and ``conv2d=NHWC,OHWI`` to the layouts of operands.

    A single name without an operator is an implementation, used for all its operators.

    Raises:
        ValueError: A text has another form, or an operator is repeated.

    >>> parse_wants(["conv2d=NHWC,OHWI"])
    {'conv2d': ['NHWC', 'OHWI']}
    """
    if len(texts) == 1 and texts[0] in IMPLEMENTATIONS:
        return texts[0]
    out: dict[str, Sequence[str] | str] = {}
    for text in texts:
        op, _, layouts = text.partition("=")
        if not op or not layouts:
            raise ValueError(f"--want {text!r}: expected the form conv2d=NHWC or conv2d=NHWC,OHWI")
        if op in out:
            raise ValueError(f"--want {op}: expected once, got {out[op]} and {layouts!r}")
        out[op] = layouts if layouts in IMPLEMENTATIONS else layouts.split(",")
    return out
