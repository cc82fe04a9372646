"""Attention, rotary position embeddings and the pages of key-value caches."""
