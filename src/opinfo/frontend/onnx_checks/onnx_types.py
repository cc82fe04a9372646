"""Check the types of a node's inputs against its operator's schema.

ONNX's inference compares sizes; it neither sees that two inputs of one type parameter differ, nor
looks at nodes with branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..checks.error import FrontendError
from .onnx_schema import schema_of

#: The most types that a message lists.
LISTED = 4


class _Input(NamedTuple):
    """A formal input; the type parameter is empty where each input may have a type of its own."""

    name: str
    parameter: str
    types: frozenset[str]
    is_last_of_many: bool
    is_required: bool


def check_types(op: str, opset: int, domain: str, dtypes: Sequence[str | None]) -> None:
    """Raise `FrontendError` for an input whose type the operator does not take there.

    Args:
        op: The operator.
        opset: The version of the operator set.
        domain: The domain, empty for ONNX's own operators.
        dtypes: The dtype of each input; None for one that is not a tensor, empty for one that is
            absent, as those of a call of a function may be.
    """
    bound: dict[str, tuple[str, str]] = {}
    for formal, dtype in zip(_each(_inputs(op, opset, domain)), dtypes, strict=False):
        if not dtype:
            if dtype is not None and formal.is_required:
                raise FrontendError(f"its input '{formal.name}' is missing")
            continue
        actual = _name(dtype)
        if formal.types and f"tensor({actual})" not in formal.types:
            raise FrontendError(
                f"its input '{formal.name}' has the type {actual}, expected {_listed(formal.types)}"
            )
        name, first = bound.setdefault(formal.parameter or formal.name, (formal.name, actual))
        if formal.parameter and first != actual:
            both = f"'{name}' and '{formal.name}'" if name != formal.name else f"'{name}'"
            raise FrontendError(
                f"its inputs {both} have the types {first} and {actual}, expected one type"
            )


@lru_cache
def _name(dtype: str) -> str:
    """Return ONNX's name of a dtype: ``float`` for ``float32``."""
    import numpy as np
    from onnx import TensorProto, helper

    return str(TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))).lower())


@lru_cache(maxsize=4096)
def _inputs(op: str, opset: int, domain: str) -> tuple[_Input, ...]:
    schema = schema_of(op, opset, domain)
    return tuple(
        _Input(formal.name, formal.type_str if formal.is_homogeneous else "",
               frozenset(formal.types), formal.option.name == "Variadic",
               formal.option.name == "Single")
        for formal in (schema.inputs if schema is not None else ())
    )  # fmt: skip


def _each(formals: Sequence[Any]) -> Iterator[_Input]:
    """Yield the formal of each input: the last one again and again if there may be many."""
    yield from formals
    while formals and formals[-1].is_last_of_many:
        yield formals[-1]


def _listed(types: frozenset[str]) -> str:
    names = sorted(t.removeprefix("tensor(").removesuffix(")") for t in types if "seq" not in t)
    more = " or others" if len(names) > LISTED else ""
    return " or ".join(names[:LISTED]) + more
