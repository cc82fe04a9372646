"""Attention by cuDNN, and by a kernel for float32."""
