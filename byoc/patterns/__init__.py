"""Patterns over recovered operators."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc")
