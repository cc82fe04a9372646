"""Recurrent layers: cells, the PrimFunc of a whole sequence, and how it is recognised."""
