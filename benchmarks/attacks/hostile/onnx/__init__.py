"""Hostile files in ONNX: models with changed fields, and bombs."""
