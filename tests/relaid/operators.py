"""Operators of every family that depends on layouts, with random shapes and attributes."""

from __future__ import annotations

from . import other_operators, row_operators, window_operators
from .random_operator import Families

FAMILIES: Families = {
    **window_operators.FAMILIES,
    **row_operators.FAMILIES,
    **other_operators.FAMILIES,
}
