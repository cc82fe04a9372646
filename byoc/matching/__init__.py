"""What backends could take of a lowered module, what is asked of them, and near misses."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc")
