"""Plans and compiled models as pages: graphs that fold and can be searched, and reasons."""

from .page import page

__all__ = ["page"]
