"""Operators recovered from PrimFuncs: how many, how right, how fast."""
