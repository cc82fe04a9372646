"""The import of ONNX graphs, against ONNX Runtime."""
