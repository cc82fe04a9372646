"""Operators with all of their attributes, each against ONNX Runtime or ONNX's reference."""
