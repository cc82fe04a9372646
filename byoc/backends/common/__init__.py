"""What backends of libraries share: where packages are, C++ of regions, factors by channel."""
