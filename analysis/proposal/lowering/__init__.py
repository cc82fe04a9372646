"""Rules of our own in place of those of TVM that fail, or that compute another function."""
