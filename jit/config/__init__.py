"""How functions with symbolic shapes are to be compiled."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.jit")
