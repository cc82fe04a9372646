"""Facts about PrimFuncs: what they compute, which operator it is, with a certificate."""

from .chain import Chain, PartlyRead, Result, Step, op_infos
from .index_map import compose, invert, prove_equal, prove_identity
from .lift import lift
from .op_info import Certificate, Constant, OpInfo, Refusal
from .recover import op_info
from .undetermined import Undetermined

__all__ = [
    "Certificate",
    "Chain",
    "Constant",
    "OpInfo",
    "PartlyRead",
    "Refusal",
    "Result",
    "Step",
    "Undetermined",
    "compose",
    "invert",
    "lift",
    "op_info",
    "op_infos",
    "prove_equal",
    "prove_identity",
]
