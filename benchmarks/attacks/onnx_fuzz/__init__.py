"""Random ONNX models, compiled in every way and compared with ONNX Runtime."""
