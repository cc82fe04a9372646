"""Models with symbolic shapes under streams of requests."""
