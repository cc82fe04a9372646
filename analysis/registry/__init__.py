"""Register recognisers, call them, and check what they propose."""

from .cases import Matches, Refuses
from .registry import recogniser

__all__ = ["Matches", "Refuses", "recogniser"]
