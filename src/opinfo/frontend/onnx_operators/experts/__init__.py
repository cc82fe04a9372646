"""Mixtures of experts of ONNX Runtime."""
