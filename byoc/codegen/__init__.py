"""From a backend's code to a loaded library: compilers, linking, checks."""
