"""The documentation is true: snippets run, links lead somewhere, the reference is complete."""
