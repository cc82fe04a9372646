"""Rewrites of the loops of PrimFuncs that stay with TVM on a CPU."""
