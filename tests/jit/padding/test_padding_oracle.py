"""Random kernels against their proofs, and the oracle against wrong ones."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.shapes.padding import page, rows

from ..legalised import kernel
from . import oracle
from .test_padding import op
from .test_padding_conditions import divided


def test_random_kernels_are_as_proved() -> None:
    seen: set[int] = set()
    found = [r for seed in range(20_000, 20_026) for r in rows(seed, seen) if r["verdict"]]
    verdicts = [r["verdict"] for r in found]
    assert "wrong" not in verdicts, [r for r in found if r["verdict"] == "wrong"]
    assert verdicts.count("proved") > 10 and any(r.get("safe") == "" for r in found)


@pytest.mark.parametrize(("build", "contents"), [
    (lambda x: op.flip(x, 0), {0: 0.0}),
    (lambda x: op.sum(x, [0]), {}),
    (lambda x: op.mean(x, [0]), {0: 0.0}),
    (lambda x: op.max(x, [0]), {0: 0.0}),
])  # fmt: skip
def test_the_oracle_sees_what_is_wrong(build: Any, contents: dict[int, float]) -> None:
    kernel_ = oracle.compiled(kernel(build, [("n", 8)]))
    assert not oracle.safe(kernel_, "n", contents)


def test_the_oracle_survives_a_crash() -> None:
    """It is asked in another process: this one divides by zero."""
    assert not oracle.safe(oracle.compiled(divided), "n", {0: 0})


def test_the_page_counts() -> None:
    base = {"seed": 0, "kernel": 1, "family": "f", "dim": "n", "ms": 1.0}
    found = [
        {**base, "verdict": "proved", "demands": True},
        {
            **base,
            "verdict": "refused",
            "safe": "anything",
            "why": "n changes when n grows",
        },
        {**base, "verdict": "refused", "safe": "", "why": "x"},
        {"seed": 1, "verdict": ""},
    ]
    text = page(found, 3, 0)
    assert "**0 wrong proofs.** Of 2 pairs" in text and "1 are proved: 50.0%" in text
    assert "| f | 3 | 1 | 1 | 0 | 1 | 1 | 0 |" in text
    assert "| a value depends on the dimension | 1 | 0 |" in text
