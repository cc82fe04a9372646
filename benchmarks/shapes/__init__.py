"""Symbolic shapes: kernels, sessions, schedules, padding."""
