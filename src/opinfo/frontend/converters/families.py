"""The converters of all families, by the names of torch's operators."""

from __future__ import annotations

from collections.abc import Mapping

from . import (
    complex_pairs,
    distances,
    embedding_bags,
    grouped_products,
    norms_and_pools,
    strided_views,
    torch_copies,
    torch_products,
    torch_recurrent,
    torch_slices,
)
from .arithmetic import (
    running_extremes,
    special_functions,
    torch_arithmetic,
    torch_inequality,
    torch_integers,
    torch_powers,
    torch_quotients,
)
from .images import grid_samples, pads, resizing
from .indexing import (
    chosen_elements,
    diagonals,
    gathering,
    masks,
    rows_at_indices,
    scattering,
    searching,
)
from .nodes import assertions
from .nodes.arguments import Converter

_FAMILIES = (
    torch_arithmetic, torch_integers, torch_powers, torch_quotients, running_extremes,
    special_functions, chosen_elements, diagonals, gathering, scattering, rows_at_indices,
    masks, searching, torch_copies, distances, embedding_bags, grouped_products, norms_and_pools,
    torch_products, torch_slices, resizing, torch_recurrent, torch_inequality, strided_views,
    grid_samples, pads, assertions, complex_pairs,
)  # fmt: skip
CONVERTERS: Mapping[str, Converter] = {
    name: convert for family in _FAMILIES for name, convert in family.CONVERTERS.items()
}
