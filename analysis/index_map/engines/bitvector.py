"""Bit-vectors for goals about index maps."""

from __future__ import annotations

from typing import Any

from ...proofs.elements.bit_vectors import BitVectors
from ...terms.term import Term
from ..maps.to_terms import Unsupported


class Bits(BitVectors):
    """Encodes terms as signed bit-vectors of one width, which excludes overflow."""

    def fallback(self, term: Term) -> Any:
        raise Unsupported(f"{term!r} is not supported in bit-vector arithmetic")
