"""PrimFuncs in TIR's standard form: their blocks, accesses and definitions."""
