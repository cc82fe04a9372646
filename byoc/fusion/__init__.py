"""Fusions of lowered calls, by what their PrimFuncs compute."""
