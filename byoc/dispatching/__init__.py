"""Which backend gets which operators: match, choose, assemble, replay."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.byoc")
