"""What statements do to buffers, and the tensor expressions that come of it."""
