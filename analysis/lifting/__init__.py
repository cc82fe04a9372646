"""PrimFunc → tensor comprehensions, by symbolic execution."""
