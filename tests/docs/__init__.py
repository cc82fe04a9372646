"""The documentation is true: its snippets run, its links lead somewhere, its reference is complete."""
