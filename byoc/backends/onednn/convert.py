"""Regions as one C++ file: a function for each, which all get their constants at load time."""

from __future__ import annotations

from collections.abc import Sequence

from ...backend.backend import Code
from ...backend.region import Region
from ..common.region_source import Constants
from .implementation_probe import job_of, of_one_batch
from .measured_forms import chosen_forms
from .raced_kernel import anchor_job
from .recipes.converters import has_own_loops, recipe_of
from .recipes.source import OneDnnFunction, function, start
from .runtime_object import shared_text


def convert(regions: Sequence[Region]) -> Code:
    """The C++ of all regions of a model.

    Raises:
        RefusedForms: oneDNN has no primitive for a region. Only a load would tell otherwise, after
            which the region must be searched by builds.
    """
    constants = Constants()
    functions, rounds, own = [], [], False
    forms = chosen_forms([job_of(of_one_batch(r)) for r in regions], map(anchor_job, regions))
    for region, form in zip(regions, forms, strict=True):
        frame = OneDnnFunction(region, constants)
        recipe = recipe_of(frame).text
        own = own or has_own_loops(recipe, form)
        functions.append(function(region, f"{recipe} {form}".rstrip()))
        if frame.rounds:
            rounds.append((region.symbol, "; ".join(frame.rounds)))
    symbols = tuple(r.symbol for r in regions)
    shared, options = shared_text(own)
    source = "".join([shared, *functions, start(symbols)])
    return Code(source, symbols, constants.named(symbols[0]), options, tuple(rounds))
