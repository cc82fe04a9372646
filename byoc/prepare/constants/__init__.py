"""What depends on constants alone, or is one number for all sizes."""
