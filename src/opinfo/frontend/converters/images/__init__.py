"""Images and other tensors that are resized, sampled and padded."""
