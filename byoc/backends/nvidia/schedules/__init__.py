"""Schedules of PrimFuncs for NVIDIA GPUs, from access functions."""
