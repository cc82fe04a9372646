"""Dispatching and compiling: what backends take, and how fast it runs."""
