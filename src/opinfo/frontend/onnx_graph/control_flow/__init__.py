"""Conditionals, loops and sequences of an ONNX graph."""
