"""The C++ that captures and launches graphs."""

from __future__ import annotations

from ....backend.backend import Code
from ...common.region_source import headers
from .whole_calls import RUN, STATE

HEADERS = ("graphs/recording.hpp", "runtime.hpp", "graphs/first_clears.hpp",
           "graphs/graph_calls.hpp", "graphs/one_graph.hpp")  # fmt: skip


def graph_code() -> Code:
    """Its functions; a library has them once."""
    return Code(headers(__package__.rpartition(".")[0], *HEADERS), (RUN, STATE))
