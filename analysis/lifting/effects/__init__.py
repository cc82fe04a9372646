"""Effects of statements on buffers, and tensor expressions."""
