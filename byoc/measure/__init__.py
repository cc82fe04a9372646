"""Measured costs: code for the same operators by several backends, built, checked and timed."""

from .measure import Measure
from .measured import Excluded, Measured, MeasureError, Timing
from .tracker import Tracker

__all__ = ["Excluded", "Measure", "MeasureError", "Measured", "Timing", "Tracker"]
