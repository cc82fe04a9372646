"""Schedules for a CPU, from the structure of a PrimFunc: ``schedule(func, target)``."""

from ...analysis import Refusal
from .result import Scheduled
from .schedule import schedule

__all__ = ["Refusal", "Scheduled", "schedule"]
