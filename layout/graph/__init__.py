"""A Relax function as values and the calls between them."""
