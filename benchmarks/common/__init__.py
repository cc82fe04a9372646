"""What benchmarks share: models, resources, rows, pages."""
