"""Integer arithmetic recovered in written ONNX graphs, where runtimes have operators for it."""
