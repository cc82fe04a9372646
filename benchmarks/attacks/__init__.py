"""Attacks: what opinfo does with hostile input and failing parts."""
