"""Graphs that grow by nodes that ONNX Runtime executes."""
