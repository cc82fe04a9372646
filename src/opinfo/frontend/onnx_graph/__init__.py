"""Import ONNX graphs: symbolic sizes stay symbolic, and shape arithmetic is evaluated."""
