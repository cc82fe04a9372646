"""Proof engines for obligations of index maps, and points that refute them."""
