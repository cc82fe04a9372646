"""Kernels that are left to TVM on a GPU: opinfo's schedules, TVM's rules, and torch."""
