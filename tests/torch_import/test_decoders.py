"""Language models of five architectures have caches, and generate as `transformers` does."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.common.decoders.relax_decoders import relax_module
from benchmarks.common.decoders.torch_decoders import ARCHITECTURES, network
from benchmarks.shapes.decoders import TOLERANCE, row
from opinfo.jit.arguments.extent import value
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


def test_windows_slide_beside_caches_that_grow() -> None:
    mod, _ = relax_module(network("gemma2"), windows=True)
    signature = Signature.of(AppendToCaches()(mod)["decode"])
    assert [c.group for c in signature.caches] == [0, 0, 1, 1]
    window, whole = signature.groups
    assert (window.slides, whole.slides) == (True, False)
    assert [value(window.kept, {"w": k}) for k in (0, 5, 6, 7)] == [1, 6, 7, 7]


#: A tutorial compares the Llama whose caches grow with `transformers`, too.
@pytest.mark.slow
@pytest.mark.part("llama-static-1", "gemma2-window-2", "mixtral-relax4-1")
@pytest.mark.parametrize(("architecture", "frontend", "layers"), [
    ("llama", "torch", 1), ("llama", "static", 1), ("gemma2", "window", 2),
    ("mixtral", "relax4", 1),
])  # fmt: skip
def test_logits_are_those_of_transformers(architecture: str, frontend: str, layers: int) -> None:
    assert TOLERANCE == 1e-4
    # raises where they differ by more
    plans = architecture == "llama"
    assert "apart" in row(architecture, frontend, layers, race=False, plans=plans)
