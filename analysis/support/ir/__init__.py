"""Relax and TIR nodes: constructors, copies, calls, constants and functions of modules."""
