"""The samples that torch has for its own operators, and what becomes of programs of them."""
