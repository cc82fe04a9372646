"""Programs at the edges of torch's operators, which torch's own samples rarely reach."""

from __future__ import annotations

import torch

from ...operator_suites.exported_programs import Program
from . import elements, forms, functions, images, layers, numbers
from .inputs import Edges

EDGES: Edges = {
    name: edge
    for family in (numbers, functions, elements, forms, images, layers)
    for name, edge in family.EDGES.items()
}


def program(name: str) -> Program:
    """Return an edge case as a program; its inputs are the same in each run."""
    function, inputs = EDGES[name]
    torch.manual_seed(3)
    return Program(function, inputs())
