"""Backends and recognisers of installed packages: found by name; what fails costs only itself."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import tvm
from tvm import relax, tirx
from typer.testing import CliRunner

from opinfo.analysis import (
    OpInfo,
    RecogniserWarning,
    list_recognisers,
    op_info,
    recogniser_scope,
)
from opinfo.analysis.registry import registry
from opinfo.analysis.support import plugins
from opinfo.byoc import Backend, Code, dispatch, list_backends
from opinfo.byoc.backend import catalog
from opinfo.byoc.backend.catalog import find
from opinfo.cli import app
from opinfo.jit.store import kernel_key

from ..common.packages import install
from ..layout import nets

BACKENDS, RECOGNISERS = plugins.BACKENDS, plugins.RECOGNISERS
BACKEND = """
from opinfo.byoc import ABI, Backend, Code, Pattern, one

def convert(regions):
    return Code(ABI, tuple(r.symbol for r in regions))

NPU = Backend({name!r}, (Pattern("relu", one("relax.nn.relu")),), convert, version=lambda: "7")
"""
RECOGNISER = """
from opinfo.analysis import Proposal, Refusal, recogniser

@recogniser({name!r}, precedence={precedence}, ops=("relax.nn.batch_flatten",))
def run(f):
    if len(f.params) != 2 or len(f.params[0].shape) != 3:
        return Refusal("not of rank 3")
    return [Proposal("relax.nn.batch_flatten", (0,))]
"""
FLATTEN = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 5, 3), "float32"), out: T.Buffer((4, 15), "float32")):
    for i, j in T.grid(4, 15):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, vj // 3, vj % 3]
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages on the path; what this process knows of plug-ins is as at its start."""
    monkeypatch.delenv(plugins.VARIABLE, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(catalog, "_REGISTRY", dict(catalog._REGISTRY))
    monkeypatch.setattr(catalog, "_SHADOWED", set())
    modules = set(sys.modules)
    with recogniser_scope():
        monkeypatch.setattr(registry, "_left_out", None)
        _forget()
        yield tmp_path
    _forget()
    for name in set(sys.modules) - modules:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def _forget() -> None:
    plugins._installed.cache_clear()
    plugins.fingerprint.cache_clear()
    kernel_key.toolchain.cache_clear()


def _backend(site: Path, package: str, name: str, **options: str) -> None:
    source = options.get("source", BACKEND.format(name=options.get("called", name)))
    install(site, package, BACKENDS, {name: f"{package}_code:NPU"},
            {f"{package}_code/__init__.py": source})  # fmt: skip


def _recogniser(site: Path, package: str, source: str) -> None:
    install(site, package, RECOGNISERS, {package: f"{package}_code"},
            {f"{package}_code/__init__.py": source})  # fmt: skip


@pytest.fixture
def flatten() -> tirx.PrimFunc:
    return tvm.script.from_source(FLATTEN)


def _name(func: tirx.PrimFunc) -> str:
    info = op_info(func)
    assert isinstance(info, OpInfo)
    return info.name


def _relu() -> tvm.IRModule:
    return nets.net(lambda e, r, x: e(relax.op.nn.relu(x)), (2, 3))


# ----------------------------------------------------------------------------- backends


def test_a_backend_is_loaded_when_its_name_is_asked_for(site: Path) -> None:
    _backend(site, "theirs", "their_npu")
    find("example_npu")
    assert "theirs_code" not in sys.modules
    done = dispatch(_relu(), ["their_npu"])
    assert [(t.backend, t.ops) for t in done.taken] == [("their_npu", ("relax.nn.relu",))]
    assert find("their_npu") is sys.modules["theirs_code"].NPU
    (row,) = [b for b in list_backends() if b.distribution == "theirs"]
    assert (row.name, row.version, row.distribution_version) == ("their_npu", "7", "1.0")
    assert (row.patterns, row.operators) == (("relu",), ("relax.nn.relu",))
    assert row.unavailable is None


WRONG = {
    "raises": ({"source": "import os\nimport no_such_module\n"},
               r"ModuleNotFoundError: No module named 'no_such_module' \(.*theirs_code/__init__"
               r"\.py:2\)"),
    "exits": ({"source": "raise SystemExit(3)\n"}, r"SystemExit: 3 \(.*/__init__\.py:1\)"),
    "does not parse": ({"source": "NPU = \n"}, r"SyntaxError: invalid syntax .*line 1"),
    "has no such attribute": ({"source": ""}, r"AttributeError: .*has no attribute 'NPU'"),
    "is not a Backend": ({"source": "NPU = 3\n"}, "expected a Backend, got int"),
    "has another name": ({"called": "npu"}, "its Backend is named npu, expected the name of"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_backend_that_cannot_be_loaded_costs_only_itself(site: Path, what: str) -> None:
    options, expected = WRONG[what]
    _backend(site, "theirs", "their_npu", **options)
    _backend(site, "other", "other_npu")
    pattern = rf"their_npu is not available: it cannot be loaded: their_npu of theirs 1\.0 " \
              rf"\(theirs_code:NPU\): {expected}"  # fmt: skip
    with pytest.warns(UserWarning, match=pattern) as warned:
        done = dispatch(_relu(), ["their_npu", "other_npu"])
    assert len(warned) == 1 and "\n" not in str(warned[0].message)
    assert [t.backend for t in done.taken] == ["other_npu"]
    rows = {b.name: b.unavailable for b in list_backends() if b.distribution != "opinfo"}
    assert rows["other_npu"] is None and "theirs 1.0" in str(rows["their_npu"])


def test_two_packages_of_one_name_are_both_left_out(site: Path) -> None:
    _backend(site, "first", "their_npu")
    _backend(site, "second", "their_npu")
    reason = find("their_npu").available() or ""
    assert (
        "2 packages provide a backend of this name" in reason and "uninstall all but one" in reason
    )
    assert "first 1.0" in reason and "second 1.0" in reason
    assert not {"first_code", "second_code"} & set(sys.modules)
    rows = [b for b in list_backends() if b.name == "their_npu"]
    assert [(b.distribution, b.unavailable is None) for b in rows] == [
        ("first", False), ("second", False)]  # fmt: skip


def test_a_backend_with_the_name_of_a_built_in_one_is_left_out_and_named_once(site: Path) -> None:
    before = find("blas")
    _backend(site, "theirs", "blas")
    _forget()
    with pytest.warns(UserWarning, match=r"plug-in ignored: blas of theirs 1\.0 .* rename"):
        assert find("blas") is before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find("blas") is before
    assert "theirs_code" not in sys.modules
    rows = [(b.distribution, b.unavailable) for b in list_backends() if b.name == "blas"]
    assert [d for d, _ in rows] == ["opinfo", "theirs"]
    assert "opinfo has a backend of this name" in str(rows[1])


def test_a_registered_backend_goes_before_an_installed_one(site: Path) -> None:
    _backend(site, "theirs", "their_npu")
    mine = Backend("their_npu", (), lambda regions: Code("", ()))
    catalog.register(mine)
    assert find("their_npu") is mine
    rows = {b.distribution: b.unavailable for b in list_backends() if b.name == "their_npu"}
    assert rows == {"theirs": "another backend of this name was registered in this process",
                    "": None}  # fmt: skip


@pytest.mark.parametrize(("value", "on"), [("0", False), ("1", True), ("", True), ("no", False)])
def test_plugins_can_be_switched_off(
    site: Path, monkeypatch: pytest.MonkeyPatch, value: str, on: bool, flatten: tirx.PrimFunc
) -> None:
    _backend(site, "theirs", "their_npu")
    _recogniser(site, "ours", RECOGNISER.format(name="mine", precedence=1))
    monkeypatch.setenv(plugins.VARIABLE, value)
    if on:
        assert find("their_npu").name == "their_npu"
    else:
        with pytest.raises(ValueError, match=r"known: .*; OPINFO_PLUGINS switches plug-ins off"):
            find("their_npu")
    assert (_name(flatten) == "relax.nn.batch_flatten") is on
    assert ("theirs_code" in sys.modules, "ours_code" in sys.modules) == (on, on)
    assert bool(plugins.fingerprint()) is on


def test_a_backend_that_is_unknown_is_told_the_installed_ones(site: Path) -> None:
    _backend(site, "theirs", "their_npu")
    with pytest.raises(ValueError, match=r"unknown backend 'thier_npu'; known: .*their_npu"):
        find("thier_npu")
    assert "theirs_code" not in sys.modules


def test_a_distribution_without_a_name_costs_only_its_own_name(site: Path) -> None:
    _backend(site, "theirs", "their_npu")
    _backend(site, "other", "other_npu")
    (site / "theirs-1.0.dist-info" / "METADATA").unlink()
    assert {p.name for p in plugins.installed(BACKENDS)} == {"their_npu", "other_npu"}
    assert find("other_npu").available() is None


def test_metadata_that_cannot_be_read_cost_the_plugins_only(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(**group: str) -> None:
        raise OSError("no entry_points.txt")

    monkeypatch.setattr("importlib.metadata.entry_points", fails)
    with pytest.warns(
        UserWarning, match=r"entry points of opinfo\.backends cannot be read: OSError"
    ):
        assert find("blas").name == "blas"


# ----------------------------------------------------------------------------- recognisers


def test_a_recogniser_is_loaded_with_the_first_question(site: Path, flatten: tirx.PrimFunc) -> None:
    _recogniser(site, "ours", RECOGNISER.format(name="mine", precedence=1))
    assert "ours_code" not in sys.modules
    assert _name(flatten) == "relax.nn.batch_flatten"
    (row,) = [r for r in list_recognisers() if r.distribution == "ours"]
    assert (row.name, row.precedence, row.operators, row.distribution_version, row.unavailable) == (
        "mine", 1, ("relax.nn.batch_flatten",), "1.0", None)  # fmt: skip
    assert {r.distribution for r in list_recognisers()} == {"opinfo", "ours"}


GOOD = RECOGNISER.format(name="mine", precedence=1)
LEFT_OUT = {
    "raises after it has registered": (GOOD + "\n1 // 0\n", r"ZeroDivisionError: .*:10\)"),
    "takes the name of another": (RECOGNISER.format(name="outer", precedence=1),
                                  "the name is taken by the recogniser 'outer'"),
    "registers nothing": ("", "it registers no recogniser"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT_OUT)
@pytest.mark.parametrize("errors", [False, True])
def test_a_recogniser_that_cannot_be_loaded_costs_only_itself(
    site: Path, what: str, errors: bool, flatten: tirx.PrimFunc
) -> None:
    source, expected = LEFT_OUT[what]
    _recogniser(site, "bad", source)
    _recogniser(site, "good", RECOGNISER.format(name="yours", precedence=1))
    if errors:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert _name(flatten) == "relax.nn.batch_flatten"
    else:
        pattern = rf"plug-in ignored: bad of bad 1\.0 \(bad_code\): .*{expected}"
        with pytest.warns(RecogniserWarning, match=pattern) as warned:
            assert _name(flatten) == "relax.nn.batch_flatten"
        assert len(warned) == 1
    names = [r.name for r in registry.registered() if not r.built_in]
    assert names == ["yours"]
    (row,) = [r for r in list_recognisers() if r.unavailable]
    assert (row.name, row.distribution) == ("bad", "bad") and "bad 1.0" in str(row.unavailable)


def test_packages_may_choose_the_same_precedence(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reshape = next(r for r in registry.registered() if r.name == "reshape")
    _forget()
    monkeypatch.setattr(registry, "_left_out", None)
    for name in ("z", "a"):
        _recogniser(site, name, RECOGNISER.format(name=name, precedence=reshape.precedence))
    assert not [r for r in list_recognisers() if r.unavailable]
    order = [r.name for r in registry.registered() if r.precedence == reshape.precedence]
    assert order == ["a", "z", "reshape"]


# ----------------------------------------------------------------------------- command line


def _run_cli(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_commands_list_what_there_is_and_what_cannot_be_used(site: Path) -> None:
    _backend(site, "theirs", "their_npu")
    _backend(site, "broken", "broken_npu", source="1 // 0\n")
    _recogniser(site, "ours", GOOD)
    head, *rows, _, last = _run_cli("backends").splitlines()
    assert head.split() == ["name", "version", "from", "patterns", "operators", "available"]
    (theirs,) = (row for row in rows if row.startswith("their_npu"))
    assert theirs.split() == ["their_npu", "7", "theirs", "1.0", "1", "nn.relu", "yes"]
    (broken,) = (row for row in rows if row.startswith("broken_npu: "))
    assert "broken_npu of broken 1.0" in broken
    found = json.loads(_run_cli("backends", "--json"))
    available = sum(b["unavailable"] is None for b in found)
    assert last == f"{len(found)} backends, {available} available"
    (row,) = (r for r in _run_cli("recognisers").splitlines() if r.startswith("mine"))
    assert row.split() == ["mine", "1", "ours", "1.0", "nn.batch_flatten"]


def test_the_command_lists_a_package_of_recognisers_that_was_left_out(site: Path) -> None:
    _recogniser(site, "bad", "1 // 0\n")
    result = CliRunner().invoke(app, ["recognisers"])
    assert result.exit_code == 0
    *_, last = result.stdout.splitlines()
    assert last.endswith("recognisers, 1 package left out")
    (row,) = (r for r in result.stdout.splitlines() if r.startswith("bad: "))
    assert "bad of bad 1.0 (bad_code)" in row
    (failed,) = (r for r in json.loads(_run_cli("recognisers", "--json")) if r["unavailable"])
    assert failed["name"] == "bad" and "ZeroDivisionError" in failed["unavailable"]


# ----------------------------------------------------------------------------- what is kept


def test_keys_of_kernels_depend_on_plugins_and_their_files(site: Path) -> None:
    bare = kernel_key.toolchain()
    assert "plug-ins" not in bare
    keys = [bare]
    _recogniser(site, "ours", GOOD)
    _forget()
    keys.append(kernel_key.toolchain())
    (site / "ours_code" / "__init__.py").write_text(GOOD + "\n# changed\n")
    _forget()
    keys.append(kernel_key.toolchain())
    assert len(set(keys)) == 3 and "ours_code" not in sys.modules
    _forget()
    assert kernel_key.toolchain() == keys[-1]


def test_the_compiler_process_has_the_same_plugins(site: Path) -> None:
    from opinfo.jit.kernels.compiler import Compiler

    _recogniser(site, "ours", GOOD)
    _forget()
    compiler = Compiler()
    try:
        compiler.start()
        assert "plug-ins" in compiler.toolchain
        assert compiler.toolchain == kernel_key.toolchain()
    finally:
        compiler.close()
