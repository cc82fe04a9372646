"""The equation of an Einsum.

ONNX's type inference does not end on a single dot, and TVM's crashes on a letter of the result that
no operand has.
"""

from __future__ import annotations

import re
from typing import Any

_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def why_malformed(proto: Any) -> str:
    """Return what is wrong with the equation of a node; empty if nothing is."""
    text = next((a.s.decode("utf-8", "replace") for a in proto.attribute), "")
    equation = "".join(text.split())
    if not _EQUATION.fullmatch(equation):
        return "its equation is not of letters, commas and an arrow, such as ij,jk->ik"
    operands, _, result = equation.partition("->")
    letters = result.replace(".", "")
    if len(set(letters)) < len(letters):
        return "its equation has a letter twice in the result"
    if not set(letters) <= set(operands):
        return "its equation has a letter in the result that no operand has"
    return ""
