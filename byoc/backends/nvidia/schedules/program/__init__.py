"""A PrimFunc as a program for a GPU: its axes and steps, loops over threads, vectors."""
