"""Certificates: why a proposed operator is what a PrimFunc computes, and what that assumes."""
