"""Where `ABI` was before: an alias for one release."""

from __future__ import annotations

from ..analysis.support.warn import warn
from .codegen.abi import ABI

__all__ = ["ABI"]
warn("opinfo.byoc.abi.ABI is deprecated: use opinfo.byoc.ABI", DeprecationWarning)
