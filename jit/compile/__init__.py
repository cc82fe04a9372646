"""Compile a module with symbolic shapes into one library."""
