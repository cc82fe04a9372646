"""Facts about PrimFuncs: what they compute, which operator it is, with a certificate."""

from .lift import lift
from .op_info import Certificate, Constant, OpInfo, Refusal
from .recover import op_info

__all__ = ["Certificate", "Constant", "OpInfo", "Refusal", "lift", "op_info"]
