"""Every Relax operator that TVM lowers, and whether opinfo recognises it.

The list comes from TVM itself, so an operator of a new TVM shows up as missing in
``tests/analysis/recognise/test_registry.py`` until it is recognised or has a reason here.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from functools import cache

import tvm
from tvm.relax.backend import dispatch_sort_scan

from opinfo.analysis.recognise import modules, recognisers
from opinfo.analysis.support.ir.constructors import own_operators
from opinfo.analysis.whole.propose_suppressions import NAME as SUPPRESSION

EXTERN = "lowers to a call of an external function, not to TIR"
VANISHES = "its legalisation is its operand: there is no PrimFunc"
HOST = "a host function that reads the descriptor of its tensor: it has no buffers"

#: Operators that are the same call of the same constructor as another one.
SAME: Mapping[str, str] = {"relax.nn.attention_bias": "relax.nn.attention"}

#: Why an operator that TVM lowers is not recognised.
REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "relax.ccl.allgather",
            "relax.ccl.allreduce",
            "relax.ccl.broadcast_from_worker0",
            "relax.ccl.scatter_from_worker0",
            "relax.dist.redistribute_replica_to_shard",
        ),
        EXTERN,
    ),
    **dict.fromkeys(
        ("relax.grad.no_grad", "relax.grad.start_checkpoint", "relax.grad.end_checkpoint"),
        VANISHES,
    ),
    **dict.fromkeys(
        (
            "relax.inspect.tensor_byte_offset",
            "relax.inspect.tensor_dtype_bits",
            "relax.inspect.tensor_dtype_code",
            "relax.inspect.tensor_dtype_lanes",
            "relax.inspect.tensor_elem_offset",
            "relax.inspect.tensor_ndim",
            "relax.inspect.tensor_shape_i",
            "relax.inspect.tensor_stride_i",
        ),
        HOST,
    ),
    "relax.ewise_fma": "a chain of relax.multiply and relax.add, which `op_infos` answers",
    "relax.dynamic_strided_slice": (
        "lowers to two PrimFuncs, one for the shape of the result, which is known at run time only"
    ),
    "relax.nn.pixel_shuffle": "its legalisation calls topi.nn.pixel_shuffle, which TVM 0.27 lacks",
    "relax.size": "lowers to shape_to_tensor and prod, which are recognised each",
    "relax.vision.all_class_non_max_suppression": (
        "lowers to several PrimFuncs, which sort by an external function"
    ),
    "relax.vision.get_valid_counts": (
        "a loop writes where a counter of its earlier iterations says: such writes are not lifted"
    ),
    "relax.nn.attention_var_len": "its legalisation raises: it is lowered by backends only",
}


@cache
def lowered() -> frozenset[str]:
    """Operators with a legalisation, and those that ``DispatchSortScan`` lowers."""
    names = (str(n) for n in tvm.ir.Op.list_op_names())
    legalised = {
        n
        for n in names
        if n.startswith("relax.") and tvm.ir.Op.get(n).get_attr("FLegalize") is not None
    }
    return frozenset(legalised | dispatched()) - own_operators()


def dispatched() -> set[str]:
    """The operators that ``DispatchSortScan`` compares a call's with."""
    tree = ast.parse(inspect.getsource(dispatch_sort_scan))
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return {t for t in texts if isinstance(t, str) and re.fullmatch(r"relax\.\w+", t)}


@cache
def recognised() -> frozenset[str]:
    """The operators that some recogniser proposes, or that are recognised as a whole."""
    return frozenset(op for r in recognisers() for op in r.ops) | {SUPPRESSION}


@cache
def canonical() -> Mapping[str, frozenset[str]]:
    """Operators that are recovered as others, according to the recognisers' own cases."""
    found: dict[str, set[str]] = {op: {name} for op, name in SAME.items()}
    for module in modules():
        for case in getattr(module, "MATCHES", ()):
            if case.name is not None and case.name != case.op:
                found.setdefault(case.op, set()).add(case.name)
    return {op: frozenset(names) for op, names in found.items()}


def status(op: str) -> str:
    """``recognised``, ``as relax.…``, or the reason why not; raises ``KeyError`` for none."""
    if op in recognised():
        return "recognised"
    if op in canonical():
        return "as " + ", ".join(sorted(canonical()[op]))
    return REASONS[op]
