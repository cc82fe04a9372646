"""MLC-LLM's Python on this TVM: a patched copy of a checkout, imported without its C++.

The checkout is the folder in the environment variable ``MLC_LLM_HOME``; nothing of it is kept.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import tvm
from tvm import relax, s_tir, tirx

HOME = "MLC_LLM_HOME"
URL = "https://github.com/mlc-ai/mlc-llm"
#: In these kernels a number, an int64, comes after the output, where `call_tir` has sizes of
#: shapes only: the file, a text, and its replacement.
_NUMBERS = (
    ("op/moe_misc.py", "(var_cumsum: T.handle, var_indptr: T.handle, batch_size: T.int64)",
     "(var_cumsum: T.handle, batch_size: T.int64, var_indptr: T.handle)"),
    ("compiler_pass/attach_sampler.py", "(var_result: T.handle, value: T.int32)",
     "(value: T.int64, var_result: T.handle)"),
    ("compiler_pass/attach_sampler.py", "result[vi, 0] = value",
     'result[vi, 0] = T.cast(value, "int32")'),
)  # fmt: skip


def checkout() -> Path | None:
    """Return the folder of MLC-LLM's Python package; None without a checkout."""
    folder = Path(os.environ.get(HOME, "")) / "python" / "mlc_llm"
    return folder if HOME in os.environ and folder.is_dir() else None


def import_mlc(scratch: Path) -> None:
    """Make ``import mlc_llm`` work in this process, from a patched copy in a scratch folder.

    It adds the names to TVM's modules that later versions removed. Call it only in a process of
    its own.
    """
    source = checkout()
    if source is None:
        raise FileNotFoundError(f"{HOME} is not the folder of a checkout of MLC-LLM")
    copy = scratch / "mlc_llm"
    shutil.copytree(source, copy)
    for name, old, new in _NUMBERS:
        path = copy / name
        path.write_text(path.read_text(encoding="utf-8").replace(old, new))
    os.environ.setdefault("SKIP_LOADING_MLCLLM_SO", "1")
    for name in ("mlc_llm", "mlc_llm.cli"):  # their own __init__ loads a library
        module = types.ModuleType(name)
        module.__path__ = [str(copy / "/".join(name.split(".")[1:]))]
        sys.modules[name] = module
    sys.modules["mlc_llm"].__version__ = "0"  # type: ignore[attr-defined]
    _add_old_names()


def _add_old_names() -> None:
    """Names of TVM that the package still uses."""
    relax.StringImm = tvm.ir.StringImm
    relax.Constant = tvm.ir.GenericConst
    relax.DataTypeImm = _DataTypeImm
    if not hasattr(relax, "ObjectType"):
        relax.ObjectType = relax.AnyType
    tirx.SBlock, tirx.SBlockRealize = s_tir.SBlock, s_tir.SBlockRealize
    if not hasattr(tirx, "stmt_functor"):
        functors = types.SimpleNamespace()
        for home in ("tvm.s_tir.stmt_functor", "tvm.tirx.stmt_functor", "tvm.tirx.functor",
                     "tvm.ir.functor", "tvm.s_tir", "tvm.tirx"):  # fmt: skip
            _take(functors, home, ("post_order_visit", "substitute"))
        tirx.stmt_functor = functors


def _take(target: Any, home: str, names: tuple[str, ...]) -> None:
    try:
        module = importlib.import_module(home)
    except ImportError:
        return
    for name in names:
        if hasattr(module, name) and not hasattr(target, name):
            setattr(target, name, getattr(module, name))


class _Dtype(type):
    """`relax.DataTypeImm` was a class of its own; a dtype is a constant now."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, tvm.ir.GenericConst)

    def __call__(cls, dtype: Any) -> Any:
        return tvm.ir.GenericConst(tvm.DataType(str(dtype)), relax.AnyType())


class _DataTypeImm(metaclass=_Dtype):
    """See `_Dtype`."""
