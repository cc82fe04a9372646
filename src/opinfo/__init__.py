"""opinfo: given a TIR PrimFunc and nothing else, say which operator it computes, with proof."""

from . import analysis, transform
from .frontend import FrontendError, load
from .inspect import inspect
from .report import Report, Row

__all__ = ["FrontendError", "Report", "Row", "analysis", "inspect", "load", "transform"]
