"""Preparing a module for backends: raising, lowering, quantised operators, reshapes."""
