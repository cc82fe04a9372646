"""Measure a calibration: a grid of workloads, run by every backend."""
