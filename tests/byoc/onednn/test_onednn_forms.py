"""oneDNN: equivalent forms give the same numbers, and implementations are known by name."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from opinfo.byoc.backends.onednn import measured_forms
from opinfo.byoc.backends.onednn.implementation_probe import implementation, job_of, of_one_batch
from opinfo.byoc.backends.onednn.measured_forms import FormTime, chosen_forms, fastest, form_times
from opinfo.byoc.backends.onednn.raced_kernel import kernel
from opinfo.byoc.compile import compile_module

from ...common.run import run
from ...layout import nets
from ...layout.nets import const
from .form_cases import CASES, LAST, TILED, conv
from .onednn_cases import implemented, region_of

nn, op = relax.op.nn, relax.op
FORMS = ("straight", "swapped", "rows", "layer", "unpacked", "turned", "padded", "packed", "moved",
         "streamed", "tiled")  # fmt: skip
CONVERT = importlib.import_module("opinfo.byoc.backends.onednn.convert")


def _copies() -> Any:
    """Each case once for each of its forms, with other constants."""
    rng = np.random.default_rng(0)
    given = [relax.Var(f"x{k}", relax.TensorType(c.shape, "float32"))
             for k, c in enumerate(CASES.values())]  # fmt: skip
    bb = relax.BlockBuilder()
    with bb.function("main", given):
        with bb.dataflow():
            results = [c.build(bb.emit, rng, x)
                       for c, x in zip(CASES.values(), given, strict=True)
                       for _ in c.forms.split()]  # fmt: skip
            out = bb.emit_output(relax.Tuple(results))
        bb.emit_func_output(out)
    return bb.get()


def test_every_form_computes_what_tvm_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    left: dict[str, list[str]] = {}
    had: list[str] = []

    def each(jobs: Iterable[str], _: object) -> list[str]:
        for job in (jobs := list(jobs)):
            if job not in left:
                left[job] = implemented(job, FORMS)
                had.append(" ".join(left[job]))
        return [f"only {left[job].pop(0)}" for job in jobs]

    monkeypatch.setattr(CONVERT, "chosen_forms", each)
    mod = _copies()
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(c.shape).astype("float32") for c in CASES.values()]
    machine = compile_module(mod, ["onednn"], plan=False).machine()
    found = machine["main"](*map(tvm.runtime.tensor, inputs))
    for one, expected in zip(found, run(mod, inputs), strict=True):
        np.testing.assert_allclose(one.numpy(), expected, rtol=2e-4, atol=2e-5)
    assert sorted(had) == sorted(c.forms for c in CASES.values())
    assert not any(left.values())


def test_candidates_give_the_same_numbers() -> None:
    case = conv((1, 40, 40, 32), (32, 3, 3, 32), "", padding=1)
    region = region_of(nets.net(case.build, case.shape, legal=False))
    times = form_times(str(job_of(region)), 0.001)
    assert times[0].form == "" and len(times) > 1
    assert all(t.difference < measured_forms.CLOSE and t.microseconds > 0 for t in times)
    direct = [t.steps for t in times if t.form in ("", "straight", "packed")]
    assert len(set(direct)) == len(direct)  # none is raced twice
    some = [t.words for t in times if t.form.startswith("winograd")]
    again = form_times(str(job_of(region)), 0.001, some)
    assert [t.words for t in again] == ["", *some] and len(some) > 1
    assert [t.words for t in form_times(str(job_of(region)), 0.001, [])] == [""]


def test_reference_code_is_known_as_such() -> None:
    def spread(e: Any, r: Any, x: Any, y: Any) -> Any:
        return e(op.multiply(x, y))

    shapes = (1, 6, 20, 64), (1, 1, 20, 1)
    assert implementation(region_of(nets.net(spread, *shapes, legal=False))) == "ref:any"
    case = CASES["narrow"]
    name = implementation(region_of(nets.net(case.build, case.shape, legal=False)))
    assert name is not None and not name.startswith("ref")


def test_depthwise_windows_of_a_line_have_kernels_of_their_own() -> None:
    """The library has these for images only; of a line it would make a product for each channel."""
    case = CASES["a dilated line, depthwise"]
    name = implementation(region_of(nets.net(case.build, case.shape, legal=False)))
    assert name is not None and name.startswith("jit_dw")


def test_reference_code_is_raced_only_if_there_is_nothing_else() -> None:
    def planes(e: Any, r: Any, x: Any) -> Any:
        return e(nn.conv2d(x, const(r, 16, 16, 3, 3), padding=1))

    def spread(e: Any, r: Any, x: Any, y: Any) -> Any:
        return e(op.multiply(x, y))

    def raced(build: Any, *shapes: tuple[int, ...]) -> list[str]:
        region = region_of(nets.net(build, *shapes, legal=False))
        default, *others = form_times(str(job_of(region)), 0)  # nothing runs
        return [*default.steps, *(t.implementation for t in others)]

    # Channels before pixels: a product of copied windows, without vectors in its name.
    names = raced(planes, (1, 16, 24, 24))
    assert len(names) > 1 and not any(n.startswith("ref") for n in names)
    assert set(raced(spread, (1, 6, 20, 64), (1, 1, 20, 1))) == {"ref:any"}

    def added(e: Any, r: Any, x: Any, y: Any) -> Any:
        z = e(nn.conv2d(x, const(r, 32, 16, 1, 1)))
        return e(nn.relu(e(op.add(e(op.add(z, const(r, 1, 32, 1, 1))), y))))

    # The sum is a step of its own by default. As one primitive, there is reference code only.
    names = raced(added, (1, 16, 7, 7), (1, 32, 7, 7))
    assert names and not any(n.startswith("ref") for n in names)


def test_a_product_of_many_rows_says_that_it_has_tiles() -> None:
    def named(rows: int, columns: int) -> str:
        def build(e: Any, r: Any, x: Any) -> Any:
            return e(op.matmul(x, const(r, 64, columns)))

        return str(kernel(region_of(nets.net(build, (rows, 64), legal=False))))

    def transposed(e: Any, r: Any, x: Any) -> Any:
        return e(op.matmul(const(r, 40, 64), x))

    assert (named(40, 48) == "tiled:own") == bool(TILED)
    assert all("tiled" not in named(*sizes) for sizes in ((4, 48), (40, 8)))
    assert "tiled" not in str(kernel(region_of(nets.net(transposed, (64, 16), legal=False))))


def test_a_region_with_symbolic_extents_is_unknown() -> None:
    mod = nets.net(lambda e, r, x: e(nn.relu(x)), (tvm.tirx.Var("n", "int64"), 6), legal=False)
    assert implementation(region_of(mod)) is None
    assert chosen_forms([None]) == [""]


def test_the_batch_of_a_convolution_may_be_symbolic() -> None:
    n = tvm.tirx.Var("n", "int64")

    def build(e: Any, r: Any, x: Any, y: Any) -> Any:
        return e(op.add(e(nn.conv2d(x, const(r, 8, 5, 1, 8), padding=(2, 0), **LAST)), y))

    def job(*shapes: tuple[Any, ...]) -> str | None:
        return job_of(of_one_batch(region_of(nets.net(build, *shapes, legal=False))))

    known = job((1, 30, 1, 8), (1, 30, 1, 8))
    assert known is not None
    assert job((n, 30, 1, 8), (n, 30, 1, 8)) == known
    assert job((1, n, 1, 8), (1, n, 1, 8)) is None
    assert job((n, n, 1, 8), (n, n, 1, 8)) is None


def _time(form: str, microseconds: float, difference: float = 0.0) -> FormTime:
    return FormTime(form, "jit:avx2" if form else "", ("jit:avx2",), microseconds, difference)


def test_a_form_is_chosen_if_it_is_faster_and_right() -> None:
    default = _time("", 100)
    assert fastest([default, _time("swapped", 50)]) == "form swapped implementation 1 jit:avx2"
    assert fastest([default, _time("swapped", 98)]) == ""
    assert fastest([default, _time("straight", 90)]) == ""  # the same kernel
    assert fastest([default, _time("swapped", 50, 1e-3), _time("rows", 60)]).startswith("form rows")


def test_the_choice_is_kept_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    asked: list[str] = []

    def times(job: str, named: object) -> tuple[FormTime, ...]:
        asked.append(job)
        return _time("", 100), _time("swapped", 50)

    monkeypatch.setattr(measured_forms, "form_times", times)
    words = "form swapped implementation 1 jit:avx2"
    assert chosen_forms(["a", None, "b", "a"]) == [words, "", words, words]
    assert chosen_forms(["b"]) == [words] and asked == ["a", "b"]
    (file,) = (tmp_path / "onednn").glob("forms-*.json")
    kept = json.loads(file.read_text())
    kept["forms"] = dict.fromkeys(kept["forms"], 'form swapped implementation 1 jit"); abort(); ("')
    file.write_text(json.dumps(kept))
    assert chosen_forms(["a"]) == [words] and asked == ["a", "b", "a"]


def test_what_follows_an_operator_is_raced_in_its_near_forms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setattr(measured_forms, "_near", {})
    asked: list[tuple[str, Any]] = []

    def times(job: str, named: Any) -> tuple[FormTime, ...]:
        asked.append((job, named))
        return (_time("", 100), _time("straight", 63), _time("swapped", 50), _time("rows", 60),
                _time("layer", 40, 1e-3))  # fmt: skip

    monkeypatch.setattr(measured_forms, "form_times", times)
    swapped, rows = (f"form {form} implementation 1 jit:avx2" for form in ("swapped", "rows"))
    chosen_forms(["alone", None])
    assert chosen_forms(["with relu", None, "other"], ["alone", None, "other"])[0] == swapped
    assert asked == [("alone", None), ("other", None), ("with relu", (swapped, rows))]


#: Words that are well formed, and go on as a recipe: another operation, or another tensor.
POISON = (
    "form straight implementation 1 x eltwise eltwise_relu 0 0",
    "form straight implementation 1 jit:avx2 src t9",
    "form straight implementation 0 eltwise eltwise_relu 0 0",
    "form straight implementation 01 jit:avx2", "form straight implementation -1 jit:avx2",
    "form nope implementation 1 jit:avx2", "form rows implementation 2 jit:avx2 ",
    "form rows implementation 1 jit:avx2\n", "form rows implementation 1 ", "form rows", "src t0",
    "only rows implementation 1 jit:avx2", 'form rows implementation 1 jit"',
    "form rows implementation 9 " + " ".join("abcdefghi"), "form rows implementation 1 " + "a" * 99,
)  # fmt: skip


@pytest.mark.parametrize("words", POISON)
def test_words_that_say_more_than_a_form_are_not_read(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setattr(measured_forms, "form_times", lambda job, named: ())
    file = measured_forms._file()
    file.parent.mkdir(mode=0o700)
    kept = dict.fromkeys([measured_forms._digest("a")], words)
    file.write_text(json.dumps({"format": measured_forms.FORMAT, "forms": kept}))
    assert not measured_forms.is_form(words)
    assert chosen_forms(["a"]) == [""]


def test_only_files_that_others_cannot_write_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "form swapped implementation 2 brgconv:avx2 x"
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    file = measured_forms._file()
    file.parent.mkdir(mode=0o700)
    content = json.dumps({"format": measured_forms.FORMAT, "forms": {"k": words}})
    file.write_text(content)
    assert measured_forms._load() == {"k": words}
    for change, back in ((0o666, 0o600), (0o600, 0o600)):
        file.chmod(change)
        assert measured_forms._load() == ({} if change != back else {"k": words})
    file.parent.chmod(0o777)
    assert measured_forms._load() == {}
    file.parent.chmod(0o700)
    (other := tmp_path / "other").write_text(content)
    file.unlink()
    file.symlink_to(other)
    assert measured_forms._load() == {}
    file.unlink()
    file.write_text("[" * 100_000)
    assert measured_forms._load() == {}
    with file.open("wb") as hole:
        hole.truncate(measured_forms.MOST + 1)
    assert measured_forms._load() == {}


def test_the_forms_are_those_of_the_program() -> None:
    text = Path(measured_forms.__file__).with_name("cpp").joinpath("probe_race.hpp").read_text()
    assert f"kRight = {measured_forms.CLOSE:g}" in text.replace("2e-5", "2e-05")
    listed = re.search(r"for \(const char\* form :\s*\{([^}]*)\}", text)
    assert listed and tuple(re.findall(r'"(\w+)"', listed[1])) == measured_forms.FORMS


def test_a_program_that_dies_leaves_the_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path))
    monkeypatch.setattr(measured_forms, "ask", lambda job: None)
    assert chosen_forms(["a"]) == [""]
    assert not list(tmp_path.rglob("forms-*"))
