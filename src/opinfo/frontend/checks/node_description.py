"""Nodes of foreign graphs in messages: their names, operators, and lines in the user's model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .error import shortened

#: Limit on the characters of a node's name, which a file may choose freely.
NAME = 100


def describe(node: Any) -> str:
    """Return a node's name or first output, its operator, and its source line if known."""
    if hasattr(node, "op_type"):
        name = shortened(node.name or ", ".join(node.output), NAME)
        place = f"node '{name}'" if node.name else f"the node of '{name}'"
        return f"{place} ({shortened(node.op_type, NAME)})"
    line = _source(node.meta)
    return f"node '{node.name}' ({node.target})" + (f", {line}" if line else "")


def _source(meta: Mapping[str, Any]) -> str:
    """Return the line of the user's model that a torch node comes from, not of generated code."""
    lines = re.findall(r'File "([^<].*)", line (\d+)', str(meta.get("stack_trace") or ""))
    return f"{Path(lines[-1][0]).name}:{lines[-1][1]}" if lines else ""
