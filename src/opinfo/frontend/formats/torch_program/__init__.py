"""Parts of a program of torch that its importer does not read."""
