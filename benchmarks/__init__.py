"""Benchmarks: each prints ratios and writes JSON."""
