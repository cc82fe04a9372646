"""Operators that are proposed: their values, and their own lowering."""
