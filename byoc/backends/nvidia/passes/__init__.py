"""Passes over modules before their PrimFuncs are scheduled for an NVIDIA GPU."""
