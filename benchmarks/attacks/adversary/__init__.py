"""PrimFuncs made to be answered wrongly, each run against the operator that was answered."""
