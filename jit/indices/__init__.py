"""Tensors whose elements index an axis: which operators read at them, and which elements fit."""
