"""What a node, a graph and a model of ONNX may be: attributes, types and values."""
