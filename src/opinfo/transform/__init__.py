"""Passes for a `tvm.transform.Sequential`."""

from .fusion_passes import DispatchAttention, FuseDequantize, FuseQKV, FuseTransposeMatmul
from .layout_passes import CancelLayoutTransforms, ConvertLayout, PlanLayout, ReplaceOpImpl
from .recognition_passes import AnnotateOpInfo, RaiseOps
from .shape_passes import AppendToCaches, SpecializeShapes

__all__ = [
    "AnnotateOpInfo",
    "AppendToCaches",
    "CancelLayoutTransforms",
    "ConvertLayout",
    "DispatchAttention",
    "FuseDequantize",
    "FuseQKV",
    "FuseTransposeMatmul",
    "PlanLayout",
    "RaiseOps",
    "ReplaceOpImpl",
    "SpecializeShapes",
]
