"""Operators of ONNX Runtime on weights of few bits, which stay packed."""
