"""Operators of ONNX Runtime that fuse sums, and those that ONNX has under the same names."""
