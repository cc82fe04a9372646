"""Facts about PrimFuncs: what they compute, which operator it is, with a certificate."""

from typing import TYPE_CHECKING

from .support.exports import exports

if TYPE_CHECKING:
    from .annotate import Annotation, annotation
    from .answer.recover import layout_normalised, op_info
    from .chain import Chain, OpaqueStep, PartlyRead, Step, StepResult, op_infos
    from .composites.defining.composite import composite
    from .index_map import compose, invert, prove_equal, prove_identity
    from .lifting.effects.tensor_expression import TensorExpression
    from .lifting.lift import lift
    from .proposal.proposal import Constant, Proposal
    from .proposal.undetermined import Undetermined
    from .recognise import Matches, Refuses
    from .registry.describe import RecogniserInfo, list_recognisers
    from .registry.registry import RecogniserWarning, recogniser, recogniser_scope, unregister
    from .results.op_info import Certificate, LayoutNormalised, OpInfo, Refusal

_HOMES = {
    "annotate": ("Annotation", "annotation"),
    "answer.recover": ("layout_normalised", "op_info"),
    "chain": ("Chain", "OpaqueStep", "PartlyRead", "Step", "StepResult", "op_infos"),
    "composites.defining.composite": ("composite",),
    "index_map": ("compose", "invert", "prove_equal", "prove_identity"),
    "lifting.effects.tensor_expression": ("TensorExpression",),
    "lifting.lift": ("lift",),
    "proposal.proposal": ("Constant", "Proposal"),
    "proposal.undetermined": ("Undetermined",),
    "recognise": ("Matches", "Refuses"),
    "registry.describe": ("RecogniserInfo", "list_recognisers"),
    "registry.registry": ("RecogniserWarning", "recogniser", "recogniser_scope", "unregister"),
    "results.op_info": ("Certificate", "LayoutNormalised", "OpInfo", "Refusal"),
}
__all__ = [
    "Annotation",
    "Certificate",
    "Chain",
    "Constant",
    "LayoutNormalised",
    "Matches",
    "OpInfo",
    "OpaqueStep",
    "PartlyRead",
    "Proposal",
    "RecogniserInfo",
    "RecogniserWarning",
    "Refusal",
    "Refuses",
    "Step",
    "StepResult",
    "TensorExpression",
    "Undetermined",
    "annotation",
    "compose",
    "composite",
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

__getattr__ = exports(__name__, _HOMES, {"Lifted": "TensorExpression", "Result": "StepResult"})


def __dir__() -> list[str]:
    return sorted(__all__)
