"""Sizes of tensors in programs of torch: expressions, variables, checks."""
