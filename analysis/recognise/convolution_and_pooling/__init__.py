"""Operators with sliding windows: convolutions, pools and their gradients."""
