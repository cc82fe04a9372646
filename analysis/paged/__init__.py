"""Attention over pages and over ragged batches: its operators, and TVM's kernels of them."""
