"""Backends and recognisers of installed packages: found by name; what fails costs only itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tvm import tirx
from typer.testing import CliRunner

from opinfo.analysis.support import plugins
from opinfo.byoc.backend.catalog import find
from opinfo.cli import app
from opinfo.jit.store import kernel_key

from .plugin_site import GOOD, RECOGNISER, forget, install_backend, install_recogniser, name_of


@pytest.mark.parametrize(("value", "on"), [("0", False), ("1", True), ("", True), ("no", False)])
def test_plugins_can_be_switched_off(
    site: Path, monkeypatch: pytest.MonkeyPatch, value: str, on: bool, flatten: tirx.PrimFunc
) -> None:
    install_backend(site, "theirs", "their_npu")
    install_recogniser(site, "ours", RECOGNISER.format(name="mine", precedence=1))
    monkeypatch.setenv(plugins.VARIABLE, value)
    plugins._warn_of_value.cache_clear()
    if value == "no":
        with pytest.warns(UserWarning, match="OPINFO_PLUGINS=no: expected 0 or 1; plug-ins are "):
            plugins.enabled()
    if on:
        assert find("their_npu").name == "their_npu"
    else:
        with pytest.raises(ValueError, match=r"known: .*; OPINFO_PLUGINS switches plug-ins off"):
            find("their_npu")
    assert (name_of(flatten) == "relax.nn.batch_flatten") is on
    assert ("theirs_code" in sys.modules, "ours_code" in sys.modules) == (on, on)
    assert bool(plugins.fingerprint()) is on


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


def _run_cli(*words: str) -> str:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_commands_list_what_there_is_and_what_cannot_be_used(site: Path) -> None:
    install_backend(site, "theirs", "their_npu")
    install_backend(site, "broken", "broken_npu", source="1 // 0\n")
    install_recogniser(site, "ours", GOOD)
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
    install_recogniser(site, "bad", "1 // 0\n")
    result = CliRunner().invoke(app, ["recognisers"])
    assert result.exit_code == 0
    *_, last = result.stdout.splitlines()
    assert last.endswith("recognisers, 1 package left out")
    (row,) = (r for r in result.stdout.splitlines() if r.startswith("bad: "))
    assert "bad of bad 1.0 (bad_code)" in row
    (failed,) = (r for r in json.loads(_run_cli("recognisers", "--json")) if r["unavailable"])
    assert failed["name"] == "bad" and "ZeroDivisionError" in failed["unavailable"]


def test_keys_of_kernels_depend_on_plugins_and_their_files(site: Path) -> None:
    bare = kernel_key.toolchain()
    assert "plug-ins" not in bare
    keys = [bare]
    install_recogniser(site, "ours", GOOD)
    forget()
    keys.append(kernel_key.toolchain())
    (site / "ours_code" / "__init__.py").write_text(GOOD + "\n# changed\n")
    forget()
    keys.append(kernel_key.toolchain())
    assert len(set(keys)) == 3 and "ours_code" not in sys.modules
    forget()
    assert kernel_key.toolchain() == keys[-1]


def test_files_that_cannot_be_read_are_no_error(site: Path) -> None:
    """Such as the link that Emacs keeps beside a changed file, in a package that is editable."""
    install_recogniser(site, "ours", GOOD)
    (site / "ours_code" / ".#__init__.py").symlink_to("me@host.1:2")
    (site / "ours_code" / "folder.py").mkdir()
    forget()
    assert "plug-ins" in kernel_key.toolchain()


def test_the_compiler_process_has_the_same_plugins(site: Path) -> None:
    from opinfo.jit.kernels.compiler import Compiler

    install_recogniser(site, "ours", GOOD)
    forget()
    compiler = Compiler()
    try:
        compiler.start()
        assert "plug-ins" in compiler.toolchain
        assert compiler.toolchain == kernel_key.toolchain()
    finally:
        compiler.close()
