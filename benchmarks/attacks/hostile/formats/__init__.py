"""Hostile files in each format but ONNX, and what all of them share."""
