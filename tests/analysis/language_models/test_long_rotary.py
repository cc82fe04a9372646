"""LongRoPE: TVM's kernel is recognised, numpy agrees, and mutants are refused."""

from __future__ import annotations

import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm.relax.frontend.nn.llm import position_embedding

from opinfo.analysis import OpInfo, Refusal, op_info
from opinfo.analysis.answer.recover import lift_or_refuse, recover_direct, with_updates
from opinfo.analysis.composites.positions.long_rotary import LONG, long_rotary_embedding
from opinfo.testing.mutants import edited
from opinfo.testing.strip import strip

from .rotary_cases import X
from .test_rotary_embedding import reference, run

LONGEST = 4
SCALING = {"rope_type": "longrope", "max_position_embeddings": 16,
           "original_max_position_embeddings": LONGEST}  # fmt: skip
AMPLITUDE = math.sqrt(1 + math.log(4) / math.log(LONGEST))
FACTORS = np.array([1.5, 2.0, 3.0, 4.5, 1.0, 1.25, 1.1, 1.75], "float32")


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """TVM's kernel; TVM 0.27 asks for the truth of a buffer, which raises."""
    source = inspect.getsource(position_embedding)
    patched = source.replace("if ext_factors:", "if ext_factors is not None:")
    path = Path(tmp_path_factory.mktemp("llm")) / "patched_position_embedding.py"
    path.write_text(patched, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        yield module.llama_rope_with_position_map(
            theta=10000, scale=1.0, head_dim=8, num_q_heads=4, num_kv_heads=2, dtype="float16",
            rope_scaling=dict(SCALING),
        )  # fmt: skip
    finally:
        del sys.modules[path.stem]


def test_tvms_kernel_is_recognised(kernel: Any) -> None:
    info = op_info(strip(kernel))
    assert isinstance(info, OpInfo) and info.name == LONG
    assert info.operands == (0, 1, 5)
    expected = {"base": 10000.0, "rotary_dim": 8, "style": "neox", "heads": (4, 2, 2),
                "scale": 1.0, "longest": LONGEST}  # fmt: skip
    assert {k: info.attrs[k] for k in expected} == expected
    assert info.attrs["amplitude"] == pytest.approx(AMPLITUDE, rel=1e-7)
    assert info.certificate.kind == "proved"


@pytest.mark.part
@pytest.mark.parametrize("style", ["neox", "gptj"])
@pytest.mark.parametrize("count", [LONGEST, LONGEST + 1])
def test_it_divides_frequencies_and_scales(style: str, count: int) -> None:
    x = np.random.default_rng(0).uniform(-2, 2, (count, 3, 8)).astype("float32")
    places = np.arange(count, dtype="int32") * 7
    got = run([x, places, FACTORS], long_rotary_embedding, base=100.0, rotary_dim=8, style=style,
              amplitude=1.5, longest=LONGEST)  # fmt: skip
    factors = FACTORS[:4] if count > LONGEST else FACTORS[4:]
    turned = reference(x, places, 100.0, 8, style, lambda f: f / factors)
    np.testing.assert_allclose(got, 1.5 * turned, atol=1e-4)


def test_features_after_the_turned_ones_are_copied() -> None:
    places = np.array([4, 0, 71], "int32")
    got = run([X, places, FACTORS[:2]], long_rotary_embedding, base=100.0, rotary_dim=4,
              amplitude=1.5)  # fmt: skip
    turned = reference(X, places, 100.0, 4, "neox", lambda f: f / FACTORS[:2])
    np.testing.assert_allclose(got[..., :4], 1.5 * turned[..., :4], atol=1e-4)
    np.testing.assert_array_equal(got[..., 4:], X[..., 4:])


@pytest.mark.parametrize(
    ("attrs", "message"),
    [({"rotary_dim": 3}, "rotary_dim 3"), ({"longest": 8}, r"expected float32 of \(8,\)"),
     ({"style": "other"}, "style other"), ({"heads": [4, 4, 1]}, "heads")],
)  # fmt: skip
def test_malformed_calls_are_refused(attrs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run([X, np.array([4, 0, 71]), FACTORS[:4]], long_rotary_embedding,
            **{"base": 100.0, "rotary_dim": 8, **attrs})  # fmt: skip


#: Changes of a kernel's text, at each place of the first branch, which change what it computes.
CHANGES = [
    (r"T\.cos", "T.sin"), (r"T\.sin", "T.cos"), (r" \+ T\.sin", " - T.sin"), (r"-1\.0", "1.0"),
    (r"10000\.0", "1000.0"), (r"d \* 2", "d * 3"), (r"d \+ 4", "d + 3"), (r"d - 4\]", "d - 3]"),
    (r"d < 4", "d < 3"), (r"long_factors\[d % 4\]", "short_factors[d % 4]"),
    (r"long_factors\[d % 4\]", "long_factors[3 - d % 4]"), (r"1\.1\d+|1\.4\d+", "1.25"),
    (r"\(position_map\[s\]|, position_map\[s\]\)", "(s"), (r"/ \(long", "* (long"),
    (r"\] \* T\.pow", "] / T.pow"), (r"seq_len > T\.int64\(4\)", "seq_len > T.int64(5)"),
]  # fmt: skip


def test_no_mutant_is_certified_as_the_kernel(kernel: Any) -> None:
    text = re.sub(r" *T\.(reads|writes)\(.*\n", "", kernel.script())
    right = op_info(kernel)
    end = text.index("else:")
    count = 0
    changes = ((match.start(), match.end(), new) for old, new in CHANGES
               for match in re.finditer(old, text[:end]))  # fmt: skip
    for (start, stop, new), mutant in edited(text, changes):  # without a search for layouts
        count += 1
        expression = with_updates(lift_or_refuse(mutant), mutant)
        if isinstance(expression, Refusal):
            continue
        info = recover_direct(expression, mutant)
        if isinstance(info, OpInfo) and info.name == LONG:
            old = text[start:stop]
            assert info.attrs != getattr(right, "attrs", None), f"{old} to {new}"
            assert old == "seq_len > T.int64(4)" and info.attrs["longest"] == 5
    assert count >= 15
