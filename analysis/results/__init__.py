"""What the analysis answers."""
