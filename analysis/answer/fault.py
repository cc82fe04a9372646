"""A fault of the analysis itself costs one answer, and says where it is."""

from __future__ import annotations

import traceback

from ..results.op_info import Refusal

#: How the reason of such a refusal begins.
FAULT = "a fault of opinfo"


def fault(error: Exception) -> Refusal:
    """The refusal for an exception that nothing in the analysis expects.

    ``op_info`` promises a value; a person gets the line to report instead of a traceback.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:200]
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Refusal(f"{FAULT}: {said} ({place.filename}:{place.lineno})")
