"""AOT variants: kernels for declared shapes in one PrimFunc that selects by shape."""
