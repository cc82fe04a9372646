"""Reductions of much to little, divided among the blocks of a GPU by a second kernel."""
