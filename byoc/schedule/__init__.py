"""Schedule PrimFuncs for CPUs by their structure: ``schedule(func, target)``."""

from ...analysis import Refusal
from .schedule import schedule
from .scheduled import WINOGRAD, Scheduled

__all__ = ["WINOGRAD", "Refusal", "Scheduled", "schedule"]
