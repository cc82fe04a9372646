"""Proofs that a rewritten PrimFunc computes the same."""
