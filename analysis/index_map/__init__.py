"""Index maps: invert, compose and compare them, with proof."""

from .certificate import Certificate
from .convert import Unsupported
from .counterexample import Counterexample
from .engines import Obligation
from .invert import invert
from .relate import Comparison, compose, prove_equal, prove_identity
from .table import Table

__all__ = [
    "Certificate",
    "Comparison",
    "Counterexample",
    "Obligation",
    "Table",
    "Unsupported",
    "compose",
    "invert",
    "prove_equal",
    "prove_identity",
]
