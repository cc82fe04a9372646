"""Terms in real arithmetic: one form for terms that differ only by rounding."""

from .form import real
from .idioms import idiomatic
from .places.fitted_loop import fitted_loops
from .places.written_out import AT_PLACES, equal_at_places
from .sums.budget import TooLarge

__all__ = ["AT_PLACES", "TooLarge", "equal_at_places", "fitted_loops", "idiomatic", "real"]
