"""Emit loop nests in TIR: tiles, vectors, packing."""
