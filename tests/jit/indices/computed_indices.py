"""A table, and indices into it."""

from __future__ import annotations

from typing import Any

import numpy as np

#: What indices read.
TABLE = np.arange(20, dtype="float32").reshape(5, 4)


def numbers(*args: Any) -> list[Any]:
    return [np.asarray(a, "int64") for a in args]
