"""Operators of ONNX that take or write elements by index."""
