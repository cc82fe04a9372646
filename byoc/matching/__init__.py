"""Matches of backends in a lowered module, the rules for choosing them, and near misses."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc")
