"""The C++ that captures and launches graphs."""

from __future__ import annotations

from ....backend.backend import Code
from ..libraries.source import library_headers
from .whole_calls import RUN, STATE

HEADERS = ("first_clears.hpp", "graph_calls.hpp", "one_graph.hpp")


def graph_code() -> Code:
    """Its functions; a library has them once."""
    return Code(library_headers(__package__, *HEADERS), (RUN, STATE))
