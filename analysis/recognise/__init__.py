"""Recognisers, one file for each operator or family, in a folder for each kind of operator.

A recogniser is a pure function from `TensorExpression` to proposals or a `Refusal`.
It may guess, because `analysis.certify` proves every proposal before it becomes an answer.

Files are discovered automatically. Those whose names start with an underscore hold no recogniser:
they read terms for the others, in `_forms` for all folders.
"""

from __future__ import annotations

from ..registry import Matches, Refuses, recogniser
from ..registry.built_in import modules
from ..registry.registry import registered as recognisers

__all__ = ["Matches", "Refuses", "modules", "recogniser", "recognisers"]
