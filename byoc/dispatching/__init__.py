"""Which backend gets which operators: request, match, cost, choose, convert, partition, replay."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc")
