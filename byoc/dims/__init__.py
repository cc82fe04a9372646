"""Symbolic dimensions of a PrimFunc, and ranges of their values."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc.dims")
