"""Language models of five architectures have caches, and generate as `transformers` does."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.common.decoders.relax_decoders import relax_module
from benchmarks.common.decoders.torch_decoders import ARCHITECTURES, network
from benchmarks.shapes.decoders import TOLERANCE, row
from opinfo.jit.arguments.signature import Signature
from opinfo.transform import AppendToCaches


def _counts(mod: Any, name: str) -> list[Any]:
    return [c.count for c in Signature.of(mod[name]).caches]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_prefill_and_decode_append_to_the_same_caches(architecture: str) -> None:
    mod, _ = relax_module(network(architecture), four_bits=True)
    written = AppendToCaches()(mod)
    assert _counts(written, "prefill") == ["s"] * 4
    assert _counts(written, "decode") == [1] * 4
    assert _counts(written, "embed") == []


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "frontend"), [("llama", "torch"), ("mixtral", "relax4")])
def test_logits_are_those_of_transformers(architecture: str, frontend: str) -> None:
    assert TOLERANCE == 1e-4
    assert "apart" in row(architecture, frontend, 1)  # raises where they differ by more
