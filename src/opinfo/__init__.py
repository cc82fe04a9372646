"""opinfo: given a TIR PrimFunc and nothing else, say which operator it computes, with proof."""

from .frontend import FrontendError, load

__all__ = ["FrontendError", "load"]
