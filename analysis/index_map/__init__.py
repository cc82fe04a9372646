"""Index maps: invert, compose and compare them, with proof."""

from .engines.engines import Obligation
from .inverse.certificate import Certificate
from .inverse.invert import invert
from .inverse.table import Table
from .maps.convert import Unsupported
from .maps.counterexample import Counterexample
from .relate import Comparison, compose, prove_equal, prove_identity

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
