"""Regions as ONNX models, for runtimes that read them."""
