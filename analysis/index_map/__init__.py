"""Index maps: invert, compose and compare them, with proof."""

from .compare_maps import Comparison, compose, prove_equal, prove_identity
from .engines.engines import EngineAnswer
from .inverse.certificate import InverseCertificate
from .inverse.inverse_table import InverseTable
from .inverse.invert import invert
from .maps.counterexample import Counterexample
from .maps.to_terms import Unsupported

__all__ = [
    "Comparison",
    "Counterexample",
    "EngineAnswer",
    "InverseCertificate",
    "InverseTable",
    "Unsupported",
    "compose",
    "invert",
    "prove_equal",
    "prove_identity",
]
