"""The calls that TVM's own operator tests build, recovered from their PrimFuncs."""
