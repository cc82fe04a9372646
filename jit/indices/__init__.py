"""Tensors whose elements index an axis: which operators read at them, and which elements fit."""

from ...analysis.support.tvm_compat import require_complete

require_complete("opinfo.jit")
