"""Code keeps its assertions, on which reads at computed indices and backends rely.

TVM's option ``tirx.disable_assert`` drops all: an index outside of its axis was then read outside
of its tensor, and OpenVINO got a file whose indices nothing checks. Checks of arguments that cannot
fail are left out by `byoc.codegen.checks.unchecked_arguments`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tvm

from ....analysis.support.pass_options import with_options
from ....analysis.support.warn import warn

OPTION = "tirx.disable_assert"


def asserting() -> AbstractContextManager[Any]:
    """A context in which TVM drops no assertions; a warning says so if the current one does."""
    if not tvm.transform.PassContext.current().config.get(OPTION, False):
        return nullcontext()
    warn(f"{OPTION} is ignored: code relies on assertions about computed indices; "
         f"unset it in the PassContext")  # fmt: skip
    return with_options({OPTION: False})
