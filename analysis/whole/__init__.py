"""Operators that are recognised from a whole PrimFunc, since it cannot be lifted to terms."""
