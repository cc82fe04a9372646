"""Random applications of Relax operators to the values of a graph that is being built.

A maker takes the builder and a tensor and gives a new one, or None if it has no use for the tensor.
"""

from . import elementwise, moves, rows, windows

#: All makers with their weights, in an order on which random graphs depend.
MAKERS = [*windows.MAKERS, *rows.MAKERS, *elementwise.MAKERS, *moves.MAKERS]
