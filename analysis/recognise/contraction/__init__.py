"""Sums of products: matrix products, outer products, einsum."""
