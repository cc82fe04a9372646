"""Proofs: conditions over integers, and equality of terms."""
