"""Formulas that operators of ONNX and of torch share."""
