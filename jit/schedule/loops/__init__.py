"""Loop nests in TIR: tiles, vectors, packing."""
