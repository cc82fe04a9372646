"""Suites of operators and programs that others wrote."""
