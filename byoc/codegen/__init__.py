"""From a backend's code to a library that is loaded: compilers, linking, trust."""
