"""Functions of ONNX's nodes: those of the model, and those that define other operators."""
