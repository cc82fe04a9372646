"""Schedules for a CPU, from the structure of a PrimFunc: ``schedule(func, target)``."""

from ...analysis import Refusal
from .schedule import schedule
from .scheduled import Scheduled

__all__ = ["Refusal", "Scheduled", "schedule"]
