"""The namespaces `T`, `R` and `I` of a TVMScript file: registered operators and a list of names.

The namespaces contain nothing else, so an unlisted name is undefined both for the checked text and
for strings that TVM's parser evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import tvm

#: Namespaces of `tvm.script` by the names under which a file may import them.
NAMESPACES = {"I": "I", "ir": "I", "R": "R", "relax": "R", "T": "T", "tirx": "T", "tir": "T"}
#: Builtin functions over numbers.
BUILTINS = {f.__name__: f for f in (abs, bool, float, int, len, max, min, range)}

_IR = "GenericConst Range dummy_global_info ir_module module_attrs module_global_infos vdevice"
_RELAX = """
    Any Callable DTensor Else ExternFunc If Object Prim Shape ShapeExpr Tensor Then Tuple
    TupleGetItem call_packed const cpu cuda dataflow device device_mesh dtype emit_with_ty ext_dev
    func_attr function hexagon match_cast metal opencl output prim_value rocm shape
    stop_lift_params str tuple vpi vulkan webgpu
"""
_TIRX = """
    Add And Assert Bind BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Break Broadcast Buffer Call Cast
    CommReducer Continue Div EQ Else FloatImm FloorDiv FloorMod GE GT If IntImm LE LShift LT Let
    Max Min Mod Mul NE Not Or Ptr RShift Ramp Range Reduce Return Select Shuffle Sub Then TileLayout
    Tuple Var While abs alloc_buffer alloc_local alloc_shared attr bind bitwise_and bitwise_not
    bitwise_or bitwise_xor broadcast buffer_store call_cpacked call_cpacked_lowered call_packed
    call_packed_lowered cast ceil ceildiv clz comm_reducer decl_buffer env_thread evaluate floordiv
    floormod func_attr func_ret grid handle if_then_else index_map infinity init iter_var
    launch_thread let likely log2 match_buffer max max_value min min_value parallel prim_func ptr
    ramp reads sblock sblock_alloc_buffer sblock_attr serial shift_left shift_right static_assert
    target thread_binding truncdiv truncmod unroll var vectorized void vscale where writes
"""
_AXES = "opaque reduce remap scan spatial"
_DTYPE = re.compile(r"(bool|(float|int|uint|bfloat|handle)\w*)")
#: An operator that holds a Python function.
_PYTHON = {"relax.call_py_func"}


@cache
def namespaces() -> dict[str, SimpleNamespace]:
    """Return `I`, `R` and `T`, restricted to the allowed names."""
    from tvm.script.parser import ir, relax, tirx

    relax_space = _space(relax, [*_RELAX.split(), *_operators("relax", relax)])
    for name in sorted({op.split(".")[1] for op in _registered("relax") if op.count(".") == 2}):
        if isinstance(inner := getattr(relax, name, None), ModuleType):
            setattr(relax_space, name, _space(inner, _operators(f"relax.{name}", inner)))
    relax_space.const = _const
    dtypes = [name for name in dir(tirx) if _DTYPE.fullmatch(name)]
    tirx_space = _space(tirx, [*_TIRX.split(), *dtypes, *_operators("tirx", tirx)])
    tirx_space.axis = _space(tirx.axis, _AXES.split())
    return {"I": _space(ir, _IR.split()), "R": relax_space, "T": tirx_space}


def lookup(root: str, path: Iterable[str]) -> Any:
    """Look up `T.a.b`; None if it is not listed or is a namespace."""
    value: Any = namespaces()[NAMESPACES[root]]
    for name in path:
        value = vars(value).get(name) if isinstance(value, SimpleNamespace) else None
    return None if isinstance(value, SimpleNamespace) else value


def _const(value: Any, dtype: Any = None) -> Any:
    """`R.const` that also reads infinities and NaN, which TVM prints as strings."""
    return tvm.relax.const(float(value) if isinstance(value, str) else value, dtype)


def _registered(prefix: str) -> Iterator[str]:
    names = map(str, tvm.ir.Op.list_op_names())
    return (name for name in names if name.startswith(f"{prefix}.") and name not in _PYTHON)


def _operators(prefix: str, module: Any) -> list[str]:
    """Return the functions of a module that are named like an operator."""
    names = [name.removeprefix(f"{prefix}.") for name in _registered(prefix)]
    return [n for n in names if "." not in n and not n.startswith("_") and hasattr(module, n)]


def _space(module: Any, names: Iterable[str]) -> SimpleNamespace:
    members = {name: getattr(module, name) for name in names if hasattr(module, name)}
    return SimpleNamespace(**{k: v for k, v in members.items() if not isinstance(v, ModuleType)})
