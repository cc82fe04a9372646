"""HTML pages of plans and compiled models."""

from .page import page

__all__ = ["page"]
