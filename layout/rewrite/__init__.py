"""PrimFuncs over buffers in other layouts."""
