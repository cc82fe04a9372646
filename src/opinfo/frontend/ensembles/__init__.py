"""Ensembles of decision trees, as files describe them."""
