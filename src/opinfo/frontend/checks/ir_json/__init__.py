"""JSON of TVM's IR, checked before TVM builds it."""
