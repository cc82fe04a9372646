"""What the backends of NVIDIA's libraries share."""
