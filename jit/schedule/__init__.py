"""Schedule PrimFuncs for CPUs by their structure: ``schedule(func, target)``."""

from ...analysis import Refusal
from .schedule import schedule
from .scheduled import Scheduled

__all__ = ["Refusal", "Scheduled", "schedule"]
