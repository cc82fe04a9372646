"""What every converter reads of a node: its arguments, and the dtypes in which torch computes."""
