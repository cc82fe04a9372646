"""The results of the analysis."""
