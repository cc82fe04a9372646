"""Turn an unexpected exception of the analysis into a refusal that names its line."""

from __future__ import annotations

import traceback

from ..results.op_info import Refusal

#: How the reason of every such refusal starts.
FAULT = "a fault of opinfo"


def fault(error: Exception) -> Refusal:
    """Return the refusal for an exception that the analysis does not expect.

    ``op_info`` never raises for a PrimFunc; people get the line to report instead of a traceback.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:200]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Refusal(f"{FAULT}: {message} ({place.filename}:{place.lineno})")
