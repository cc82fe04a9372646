"""Deep copies of IR."""

from __future__ import annotations

from typing import Any

import tvm
from tvm_ffi.serialization import from_json_graph_str


def copied(func: Any) -> Any:
    """Return a deep copy: a ``Schedule`` may modify the function's body.

    `tvm.ir.load_json` would first search the text for what older versions wrote.
    """
    return from_json_graph_str(tvm.ir.save_json(func))
