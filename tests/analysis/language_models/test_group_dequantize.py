"""Dequantisation by group computes what numpy computes, and no mutant of it gets its answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.composites.grouped import group_dequantize
from opinfo.testing.mutants import changes_of, edited, parsed
from opinfo.testing.strip import strip
from opinfo.testing.unoptimised import unoptimised

from ...common.mutation import outputs, trial
from ...part import OneIn

RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Form:
    """A call: its operands' shapes and dtypes, and its attributes."""

    operands: tuple[tuple[tuple[int, ...], str], ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def arrays(self) -> list[np.ndarray]:
        return [_random(shape, dtype) for shape, dtype in self.operands]

    def module(self) -> Any:
        params = [relax.Var(f"a{k}", relax.TensorType(*o)) for k, o in enumerate(self.operands)]
        builder = relax.BlockBuilder()
        with builder.function("main", params):
            builder.emit_func_output(builder.emit(group_dequantize(*params, **self.attrs)))
        return builder.get()

    def kernel(self) -> Any:
        (func,) = (
            f for _, f in relax.transform.LegalizeOps()(self.module()).functions_items()
            if isinstance(f, tirx.PrimFunc)
        )  # fmt: skip
        return func


FORMS = {
    "q4f16_1": Form(
        (((6, 16), "uint32"), ((6, 4), "float16")),
        {"bits": 4, "group_size": 32, "offset": 7.0},
    ),
    "q4f16_0": Form(
        (((16, 5), "uint32"), ((4, 5), "float16")),
        {"bits": 4, "group_size": 32, "axis": 0, "offset": 7.0},
    ),
    "q3f16_1": Form(
        (((3, 8), "uint32"), ((3, 2), "float16")),
        {"bits": 3, "group_size": 40, "size": 64, "offset": 3.0},
    ),
    "awq": Form(
        (((4, 8), "uint32"), ((4, 8), "float16"), ((4, 1), "uint32")),
        {"bits": 4, "group_size": 8, "interleave": 2, "zero_points_axis": 1},
    ),
    "autoawq": Form(
        (((16, 1), "uint32"), ((2, 8), "float16"), ((2, 1), "uint32")),
        {
            "bits": 4,
            "group_size": 8,
            "axis": 0,
            "interleave": 2,
            "packed_axis": 1,
            "zero_points_axis": 1,
        },
    ),
    "gptq": Form(
        (((4, 16), "uint32"), ((2, 16), "float16"), ((2, 2), "uint32")),
        {"bits": 4, "group_size": 16, "axis": 0, "offset": 1.0, "zero_points_axis": 1},
    ),
    "zero points": Form(
        (((3, 8), "uint8"), ((3, 4), "float32"), ((3, 4), "int8")),
        {"bits": 2, "group_size": 8},
    ),
    "int8": Form((((3, 16), "int8"), ((3, 2), "float32")), {"bits": 8, "group_size": 8}),
    "float8": Form((((3, 16), "float8_e4m3fn"), ((3, 2), "float32")), {"bits": 8, "group_size": 8}),
}


def _random(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return RANDOM.integers(info.min, info.max, shape, kind, endpoint=True)
    return RANDOM.uniform(-2, 2, shape).astype(kind)


def expected(form: Form, data: Any, scale: Any, zeros: Any = None) -> np.ndarray:
    """The definition, value by value."""
    a: dict[str, Any] = {
        "axis": -1,
        "offset": 0.0,
        "interleave": 1,
        "packed_axis": None,
        "zero_points_axis": None,
        "size": None,
    }
    a |= form.attrs
    axis, rank = a["axis"] % data.ndim, data.ndim
    packed = axis if a["packed_axis"] is None else a["packed_axis"]
    shape = list(data.shape)
    shape[packed] = a["size"] or data.shape[packed] * (data.itemsize * 8 // a["bits"])
    out = np.empty(shape, scale.dtype)
    for place in np.ndindex(*shape):
        group = tuple(place[d] // a["group_size"] if d == axis else place[d] for d in range(rank))
        value = _value(data, place, packed, a["bits"], a["interleave"])
        value = scale.dtype.type(value) - scale.dtype.type(a["offset"])
        if zeros is not None and a["zero_points_axis"] is not None:
            value -= _value(zeros, group, a["zero_points_axis"], a["bits"], a["interleave"])
        elif zeros is not None:
            value -= scale.dtype.type(zeros[group])
        out[place] = value * scale[group]
    return out


def _value(words: Any, place: tuple[int, ...], axis: int, bits: int, interleave: int) -> Any:
    per_word = words.itemsize * 8 // bits
    within = place[axis] % per_word
    word = words[tuple(p // per_word if d == axis else p for d, p in enumerate(place))]
    if per_word == 1:
        return word
    position = within % interleave * (per_word // interleave) + within // interleave
    return int(word) >> bits * position & (1 << bits) - 1


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_it_computes_what_numpy_computes(form: Form) -> None:
    arrays = form.arrays()
    machine = relax.VirtualMachine(unoptimised(form.module()), tvm.cpu())
    got = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    np.testing.assert_array_equal(got, expected(form, *arrays))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (Form((((4, 4), "float32"), ((4, 1), "float32")), {"bits": 4, "group_size": 4}), "float32"),
        (Form((((4, 4), "uint8"), ((4, 1), "float32")), {"bits": 9, "group_size": 4}), "9 bits"),
        (Form((((4, 4), "uint8"), ((4, 1), "float32")), {"bits": 4, "group_size": 4}), "scale of"),
        (Form((((4, 4), "uint8"), ((3, 1), "float32")), {"bits": 4, "group_size": 8}), "scale of"),
        (Form((((4, 4), "uint8"), ((4, 1), "float32")), {"bits": 4, "group_size": 8, "size": 9}),
         "9 values"),
        (Form((((4, 4), "uint8"), ((4, 1), "float32")),
              {"bits": 4, "group_size": 8, "interleave": 3}), "interleaved by 3"),
    ],
)  # fmt: skip
def test_malformed_calls_are_refused(form: Form, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form.module()


#: Changes of the text of `FORMS`: each gives another function.
CHANGES = {
    "T.uint32(15)": ["T.uint32(7)", "T.uint32(31)", "T.uint32(14)", "T.uint32(16)"],
    "T.uint32(7)": ["T.uint32(3)", "T.uint32(15)", "T.uint32(6)"],
    "// T.int64(8)": ["// T.int64(4)", "// T.int64(16)", "% T.int64(8)"],
    "// T.int64(10)": ["// T.int64(8)", "// T.int64(11)", "% T.int64(8)"],
    "// T.int64(32)": ["// T.int64(33)", "// T.int64(64)", "% T.int64(4)", "// T.int64(128)"],
    "// T.int64(40)": ["// T.int64(39)", "// T.int64(32)", "% T.int64(2)"],
    "% T.int64(8) * T.int64(4)": [
        "% T.int64(8) * T.int64(3)", "% T.int64(4) * T.int64(4)", "% T.int64(4) * T.int64(8)",
        "% T.int64(8) * T.int64(4) ^ T.int64(4)", "// T.int64(8) % T.int64(8) * T.int64(4)",
        "% T.int64(8) % T.int64(2) * T.int64(4)",
    ],
    "% T.int64(10) * T.int64(3)": [
        "% T.int64(10) * T.int64(2)", "% T.int64(8) * T.int64(3)", "% T.int64(10) * T.int64(3) ^ 1",
    ],
    " >> ": [" << "],
    " - T.float16": [" + T.float16"],
    " - T.Cast": [" + T.Cast"],
    "T.float16(7.0)": ["T.float16(8.0)", "T.float16(-7.0)", "T.float16(0.0)"],
    "T.float16(3.0)": ["T.float16(4.0)", "T.float16(-3.0)"],
}  # fmt: skip


#: Of how many changes the suite tries one.
EVERY = 5


def _changed(text: str, one_in: OneIn) -> Iterator[tuple[str, Any]]:
    """Every occurrence of every change, and the changes of any program; one of `EVERY`."""
    body = text.index("def ")
    changes = [(body + match.start(), body + match.end(), new) for old, news in CHANGES.items()
               for match in re.finditer(re.escape(old), text[body:]) for new in news]  # fmt: skip
    for (start, end, new), mutant in edited(text, one_in(EVERY, [*changes, *changes_of(text)])):
        yield f"{text[start:end]} to {new}", mutant


def _tried(name: str, one_in: OneIn) -> tuple[int, list[str]]:
    """The number of mutants that differ, and the wrong answers."""
    form = FORMS[name]
    original = parsed(strip(form.kernel()).script())
    truth = op_info(original)
    assert isinstance(truth, OpInfo) and truth.name == "relax.nn.group_dequantize"
    inputs = [form.arrays() for _ in range(2)]
    results = [outputs(original, i) for i in inputs]
    assert results[0] is not None
    different, wrong = 0, []
    for change, mutant in _changed(original.script(), one_in):
        found = trial(mutant, truth, inputs, results)
        different += found.different
        wrong += [f"{change}: {found.wrong}"] if found.wrong else []
    return different, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ["q4f16_1", "q4f16_0", "q3f16_1", "awq", "autoawq", "gptq"])
def test_no_mutant_gets_its_answer(name: str, one_in: OneIn) -> None:
    different, wrong = _tried(name, one_in)
    assert not wrong
    assert different >= one_in.least(EVERY, 30)
