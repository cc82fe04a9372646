"""The harvested calls, as variants."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.variants import Variant

FILE = Path(__file__).with_name("calls.jsonl")
#: The first line of the file.
LICENCE = {
    "source": "https://github.com/apache/tvm, tests/python/relax: the operands and attributes of "
    "the calls in test_op_*.py and test_transform_legalize_ops*.py",
    "licence": "Apache-2.0, Copyright 2017-2026 The Apache Software Foundation",
}


def calls() -> dict[str, tuple[Variant, ...]]:
    """Return the harvested calls by operator."""
    by_op: dict[str, list[Variant]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines()[1:]:
        call = read(json.loads(line))
        by_op.setdefault(call.op, []).append(call)
    return {op: tuple(found) for op, found in by_op.items()}


def read(row: Mapping[str, Any]) -> Variant:
    """Return a row of the file as a variant."""
    attrs = {k: _tuples(a) for k, a in row.get("attrs", {}).items()}
    return Variant(row["op"], tuple(row.get("operands", ())), attrs, row.get("sizes", {}))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def source() -> str:
    """Return the address of the tests that the calls are from."""
    commit = json.loads(FILE.read_text(encoding="utf-8").partition("\n")[0])["commit"]
    return f"https://github.com/apache/tvm/tree/{commit}/tests/python/relax"
