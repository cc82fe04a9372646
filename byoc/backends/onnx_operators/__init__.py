"""Relax operators as ONNX nodes: their conditions and writers."""
