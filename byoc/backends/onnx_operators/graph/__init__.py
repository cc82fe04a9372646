"""ONNX graphs as they are written: dtypes, nodes, conditions of operators."""
