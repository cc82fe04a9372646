"""Where `ABI` was before: an alias for one release."""

from __future__ import annotations

import warnings

from .codegen.abi import ABI

__all__ = ["ABI"]
warnings.warn("opinfo.byoc.abi.ABI is opinfo.byoc.ABI", DeprecationWarning, stacklevel=2)
