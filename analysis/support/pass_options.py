"""TVM's current PassContext with other options."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import tvm


def with_options(options: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Return a context that differs from the current one in these options."""
    current = tvm.transform.PassContext.current()
    context: AbstractContextManager[Any] = tvm.transform.PassContext(
        current.opt_level, current.required_pass, current.disabled_pass, current.instruments,
        {**current.config, **options})  # fmt: skip
    return context
