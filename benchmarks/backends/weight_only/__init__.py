"""Time products with 4-bit weights, and the decoding of a model of them."""
