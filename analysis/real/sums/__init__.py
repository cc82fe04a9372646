"""Sums of products, and parts of a sum, product or extreme as one reduction."""
