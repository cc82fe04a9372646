"""Products with weights of few bits on a GPU."""
