"""Stripped functions keep nothing but their compute, and compute the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.testing.strip import strings, strip, strip_module
from tests import models
from tests.common.run import run

from ..common.prim_funcs import prim_funcs

MODELS = ("squeezenet", "ocr_rec", "gpt2_n")


def _legalised(name: str) -> tvm.IRModule:
    return relax.transform.LegalizeOps()(models.module(name))


@pytest.mark.parametrize("name", MODELS)
def test_no_string_is_left_but_numbers(name: str) -> None:
    for func in prim_funcs(strip_module(_legalised(name))):
        texts = {text for text in strings(func) if text[:1] not in "vb" or not text[1:].isdigit()}
        assert texts <= {"", "global", "s_tir"}


@pytest.mark.parametrize("name", MODELS)
def test_body_is_structurally_equal(name: str) -> None:
    for func in prim_funcs(_legalised(name)):
        plain = func.without_attr("tirx.noalias")
        if not any(text in ("axis", "schedule_rule") for text in strings(func)):
            assert tvm_ffi.structural_equal(strip(func), plain)


def test_input_is_not_changed() -> None:
    mod = _legalised("squeezenet")
    before = tvm.ir.save_json(mod)
    strip_module(mod)
    assert tvm.ir.save_json(mod) == before


def test_stripped_module_computes_the_same() -> None:
    mod = _legalised("gpt2")
    values = [*models.inputs("gpt2"), *models.weights("gpt2")]
    for got, expected in zip(run(strip_module(mod), values), run(mod, values), strict=True):
        np.testing.assert_array_equal(got, expected)
