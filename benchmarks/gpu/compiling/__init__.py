"""What compiling whole models for a GPU takes."""
