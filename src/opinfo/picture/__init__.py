"""A plan as a page: both graphs side by side, conversions weighted by bytes, reasons on a click."""

from .page import page

__all__ = ["page"]
