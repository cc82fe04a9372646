"""Operators that compute: elementwise ones, reductions, products, recurrent layers."""
