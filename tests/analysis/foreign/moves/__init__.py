"""Data movement, pads, gathers and fills."""
