"""Attention as ONNX Runtime's operators define it."""
