"""Conversion of `torch.export` programs to Relax, on top of TVM's importer."""
