"""Facts about PrimFuncs: what they compute, which operator it is, with a certificate."""

from typing import TYPE_CHECKING, Any

from .annotate import Annotation, annotation
from .answer.recover import layout_normalised, op_info
from .chain import Chain, PartlyRead, Result, Step, op_infos
from .lifting.effects.comprehension import Lifted
from .lifting.lift import lift
from .proposal.proposal import Constant, Proposal
from .proposal.undetermined import Undetermined
from .registry.describe import RecogniserInfo, list_recognisers
from .registry.registry import RecogniserWarning, recogniser, recogniser_scope, unregister
from .results.op_info import Certificate, LayoutNormalised, OpInfo, Refusal

if TYPE_CHECKING:
    from .index_map import compose, invert, prove_equal, prove_identity

__all__ = [
    "Annotation",
    "Certificate",
    "Chain",
    "Constant",
    "LayoutNormalised",
    "Lifted",
    "OpInfo",
    "PartlyRead",
    "Proposal",
    "RecogniserInfo",
    "RecogniserWarning",
    "Refusal",
    "Result",
    "Step",
    "Undetermined",
    "annotation",
    "compose",
    "invert",
    "layout_normalised",
    "lift",
    "list_recognisers",
    "op_info",
    "op_infos",
    "prove_equal",
    "prove_identity",
    "recogniser",
    "recogniser_scope",
    "unregister",
]


def __getattr__(name: str) -> Any:
    """The algebra of index maps is imported when it is asked for."""
    if name not in ("compose", "invert", "prove_equal", "prove_identity"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import index_map

    return getattr(index_map, name)


def __dir__() -> list[str]:
    return sorted(__all__)
