"""The cases of ONNX's own operator tests, and what becomes of each."""
