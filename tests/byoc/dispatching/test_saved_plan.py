"""Dispatch plans: saved, done again, refused where something is another; forced operators."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi
from tvm import relax
from typer.testing import CliRunner

from opinfo.byoc import CannotForce, DispatchPlan, PlanRefused, dispatch
from opinfo.byoc.backend import catalog
from opinfo.byoc.dispatching.replay_dispatch import replay
from opinfo.cli import app

from ...layout import nets
from ..backends.toy import TOY
from .test_dispatch import SHAPE, chain

OTHER = replace(TOY, name="other", version=lambda: "2.1")
PRIORITY = {"toy": 5, "other": 3}


def _broken(regions: Any) -> Any:
    return 1 // len([])


def _module(shape: tuple[int, ...] = SHAPE, seed: int = 0) -> Any:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(relax.op.multiply(chain(emit, rng, x), nets.const(rng, *shape)))
        return emit(relax.op.add(y, x))

    return nets.net(build, shape, seed=seed)


def _same(one: Any, two: Any) -> bool:
    """Relax functions, PrimFuncs and the generated code."""
    code = [[m.inspect_source() for m in mod.attrs["external_mods"]] for mod in (one, two)]
    bare = [mod.without_attr("external_mods") for mod in (one, two)]
    return bool(code[0] == code[1] and tvm_ffi.structural_equal(*bare))


def test_a_plan_that_was_saved_gives_the_same_module(tmp_path: Path) -> None:
    mod = _module()
    done = dispatch(mod, [TOY, OTHER], PRIORITY, force={"multiply": "tvm", "relax.add": "other"})
    assert {t.backend for t in done.taken} == {"toy", "other"}
    path = tmp_path / "plan.json"
    done.plan.save(path)
    again = replay(_module(seed=1), DispatchPlan.load(path), [OTHER, TOY])
    assert again.taken == done.taken
    assert [o.op for o in again.left] == [o.op for o in done.left] != []
    assert again.plan == done.plan == DispatchPlan.load(path)
    again = replay(mod, done.plan, [TOY, OTHER])
    assert _same(again.module, done.module)
    assert not _same(again.module, dispatch(mod, [TOY, OTHER], {"toy": 2}).module)


def test_the_hash_of_a_module_is_the_same_in_another_process() -> None:
    code = ("import sys; sys.modules['torch'] = None; "  # TVM would import it
            "from tests.byoc.dispatching.test_saved_plan import _module; "
            "from opinfo.byoc.dispatching.choice.plan_file import fingerprint; "
            "print(fingerprint(_module(seed=3)))")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True,
                          cwd=Path(__file__).parents[3])  # fmt: skip
    assert done.stdout.split()[-1] == dispatch(_module(), [TOY]).plan.module


def _edit(change: Callable[[Any], Any]) -> DispatchPlan:
    saved = dispatch(_module(), [TOY, OTHER], PRIORITY).plan.to_json()
    return DispatchPlan.from_json(json.loads(json.dumps(change(saved) or saved)))


def _set(key: str, value: Any) -> Callable[[Any], Any]:
    return lambda saved: saved.__setitem__(key, value)


def _region(**fields: Any) -> Callable[[Any], Any]:
    return lambda saved: {**saved, "regions": [saved["regions"][0] | fields]}


@pytest.mark.parametrize(("change", "reason"), [
    (_set("format", 7), "expected a dispatch plan of format 2, got format 7"),
    (lambda saved: [saved], "expected a dispatch plan of format 2, got format None"),
    (_set("regions", [{"function": "main"}]), r"regions\[0\]: expected the field 'backend'"),
    (_set("status", None), "malformed: status: expected a string, got null"),
    (_set("module", "0" * 16), "the plan belongs to another module: its hash is 0000000000000000"),
    (_set("backends", {"toy": "0.1"}), "made with toy 0.1, got no version"),
    (_set("backends", {"toy": "", "other": "2"}), "made with other 2, got 2.1"),
    (_set("backends", {}), "the plan names no version of toy"),
    (_set("backends", {"toy": "", "fpga": ""}), "needs a backend: unknown backend 'fpga'"),
    (_region(ops=[9]), r"region \(9,\) of main is not in the module"),
    (_region(ops=[-1]), "is not in the module"),
    (_region(function="f"), "of f is not in the module"),
    (_region(pattern="conv"), "does not match toy, pattern conv"),
    (_region(ops=[1, 2]), r"region \(1, 2\) of main does not match toy, pattern pointwise"),
    (lambda saved: {**saved, "regions": saved["regions"][:1] * 2}, "overlaps another region"),
])  # fmt: skip
def test_a_plan_of_something_else_is_refused(change: Callable[[Any], Any], reason: str) -> None:
    with pytest.raises(PlanRefused, match=reason):
        replay(_module(), _edit(change), [TOY, OTHER])


def test_a_stale_plan_is_refused_with_what_changed(tmp_path: Path) -> None:
    plan = dispatch(_module(), [TOY]).plan
    with pytest.raises(PlanRefused, match="another module"):
        replay(_module((2, 7)), plan, [TOY])
    with pytest.raises(PlanRefused, match="toy, which is not available: no library"):
        replay(_module(), plan, [replace(TOY, available=lambda: "no library")])
    with pytest.raises(PlanRefused, match="made with toy \\(no version\\), got 3"):
        replay(_module(), plan, [replace(TOY, version=lambda: "3")])
    with pytest.raises(PlanRefused, match="its converter failed: ZeroDivisionError"):
        replay(_module(), plan, [replace(TOY, convert=_broken)])
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(PlanRefused, match="is not JSON"):
        DispatchPlan.load(tmp_path / "plan.json")


def test_a_forced_operator_goes_to_the_given_backend() -> None:
    mod = _module()
    done = dispatch(mod, [TOY, OTHER], {"toy": 9, "other": 0}, force={"add": "other"})
    assert [(t.backend, t.ops) for t in done.taken] == [
        ("toy", ("relax.nn.relu",)), ("toy", ("relax.nn.relu",)),
        ("other", ("relax.add",)), ("other", ("relax.add",)),
    ]  # fmt: skip
    done = dispatch(mod, [TOY], force={"nn.relu": "toy.relu", "relax.exp": "tvm"})
    assert [(t.pattern, t.ops) for t in done.taken] == [
        ("pointwise", ("relax.add",)), ("relu", ("relax.nn.relu",)), ("relu", ("relax.nn.relu",)),
        ("pointwise", ("relax.add",)),
    ]  # fmt: skip
    assert not dispatch(mod, [TOY], force={"add": "tvm", "relu": "tvm"}).taken


@pytest.mark.parametrize(("force", "reason"), [
    ({"negative": "toy"}, r"relax.negative \(lv3\) cannot go to toy: no pattern of toy has"),
    ({"relu": "toy.pointwise", "add": "tvm"}, r"relax.nn.relu .* cannot go to toy, pattern"),
    ({"exp": "toy", "add": "other"}, r"relax.exp \(lv2\) cannot go to toy"),
    ({"relu": "toy.relu", "exp": "toy"}, r"relax.exp \(lv2\) cannot go to toy"),
])  # fmt: skip
def test_what_cannot_be_forced_says_why(force: dict[str, str], reason: str) -> None:
    with pytest.raises(CannotForce, match=reason):
        dispatch(_module(), [TOY, OTHER], force=force)


@pytest.mark.parametrize(("force", "reason"), [
    ({"add": "fpga"}, "fpga is not a requested backend"),
    ({"add": "toy.conv"}, "toy has no pattern conv"),
    ({"conv2d": "toy"}, "the module has no operator conv2d"),
    ({"dd": "toy"}, "force: unknown Relax operator 'dd'"),
    ({"add": "toy", "relax.add": "other"}, "relax.add is forced to toy and to other"),
])  # fmt: skip
def test_force_is_checked(force: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        dispatch(_module(), [TOY, OTHER], force=force)


def test_a_backend_that_is_needed_is_not_left_out() -> None:
    off = replace(TOY, available=lambda: "no library")
    with pytest.raises(CannotForce, match="toy is not available: no library"):
        dispatch(_module(), [off], force={"add": "toy"})
    broken = replace(TOY, convert=_broken)
    with pytest.raises(CannotForce, match="its converter failed"):
        dispatch(_module(), [broken], force={"add": "toy"})


def test_the_command_saves_a_plan_and_does_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(catalog._REGISTRY, "toy", TOY)
    for name, shape in (("net", SHAPE), ("large", (3, 7))):
        (tmp_path / f"{name}.json").write_text(tvm.ir.save_json(_module(shape)))
    plan = tmp_path / "plan.json"

    def compiled(*words: str, model: str = "net") -> Any:
        given = ["compile", f"{tmp_path / model}.json", "-o", str(tmp_path / "net.so")]
        return CliRunner().invoke(app, [*given, "--backend", "toy", *words])

    first = compiled("--save-plan", str(plan), "--force", "relu=tvm")
    assert (first.exit_code, first.stdout.splitlines()[1][:20]) == (0, "offloaded 2 of 8 ops")
    again = compiled("--plan", str(plan), "--verify")
    assert (again.exit_code, again.stdout.splitlines()[:2]) == (0, first.stdout.splitlines()[:2])
    for words, model, reason in (
        (("--plan", str(plan)), "large", "the plan belongs to another module"),
        (("--plan", str(tmp_path / "no.json")), "net", "No such file"),
        (("--force", "relu"), "net", "--force relu: expected OPERATOR=BACKEND"),
        (("--force", "multiply=toy"), "net", "relax.multiply (lv5) cannot go to toy"),
    ):
        capfd.readouterr()
        assert compiled(*words, model=model).exit_code == 2
        errors = capfd.readouterr().err
        assert errors.count("\n") == 1 and reason in errors


def test_a_path_is_not_a_plan() -> None:
    wrong: Any = "plan.json"
    expected = "expected a DispatchPlan, got 'plan.json'; read a file by DispatchPlan.load"
    with pytest.raises(TypeError, match=expected):
        replay(_module(), wrong)
