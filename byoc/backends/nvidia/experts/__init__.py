"""Products of rows with matrices of their experts, on a GPU."""
