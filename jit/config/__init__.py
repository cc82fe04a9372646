"""Configuration: how functions with symbolic shapes are compiled."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.jit")
