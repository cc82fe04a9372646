"""Reports of plans."""
