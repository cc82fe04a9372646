"""The folder that compiled kernels are kept in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

#: Names another folder than the platform's.
VARIABLE = "OPINFO_CACHE"


def default_folder() -> Path:
    """``$OPINFO_CACHE``, or where the platform keeps what can be made again.

    Raises ``RuntimeError`` where there is no home folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "opinfo" / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    # The specification of these variables: a relative path is to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "opinfo" / "kernels"
