"""Verification: compare a compiled model with the unmodified one."""
