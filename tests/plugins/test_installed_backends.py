"""Backends of installed packages: found by name, and what cannot be used costs only itself."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from opinfo.analysis.support import plugins
from opinfo.byoc import Backend, Code, dispatch, list_backends
from opinfo.byoc.backend import catalog
from opinfo.byoc.backend.catalog import find

from .plugin_site import BACKENDS, forget, install_backend, relu_module


def test_a_backend_is_loaded_when_its_name_is_asked_for(site: Path) -> None:
    install_backend(site, "theirs", "their_npu")
    find("example_npu")
    assert "theirs_code" not in sys.modules
    done = dispatch(relu_module(), ["their_npu"])
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
    install_backend(site, "theirs", "their_npu", **options)
    install_backend(site, "other", "other_npu")
    pattern = rf"their_npu is not available: it cannot be loaded: their_npu of theirs 1\.0 " \
              rf"\(theirs_code:NPU\): {expected}"  # fmt: skip
    with pytest.warns(UserWarning, match=pattern) as warned:
        done = dispatch(relu_module(), ["their_npu", "other_npu"])
    assert len(warned) == 1 and "\n" not in str(warned[0].message)
    assert [t.backend for t in done.taken] == ["other_npu"]
    rows = {b.name: b.unavailable for b in list_backends() if b.distribution != "opinfo"}
    assert rows["other_npu"] is None and "theirs 1.0" in str(rows["their_npu"])


def test_two_packages_of_one_name_are_both_left_out(site: Path) -> None:
    install_backend(site, "first", "their_npu")
    install_backend(site, "second", "their_npu")
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
    install_backend(site, "theirs", "blas")
    forget()
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
    install_backend(site, "theirs", "their_npu")
    mine = Backend("their_npu", (), lambda regions: Code("", ()))
    catalog.register(mine)
    assert find("their_npu") is mine
    rows = {b.distribution: b.unavailable for b in list_backends() if b.name == "their_npu"}
    assert rows == {"theirs": "another backend of this name was registered in this process",
                    "": None}  # fmt: skip


def test_the_error_of_an_unknown_backend_lists_the_installed_ones(site: Path) -> None:
    install_backend(site, "theirs", "their_npu")
    with pytest.raises(ValueError, match=r"unknown backend 'thier_npu'; known: .*their_npu"):
        find("thier_npu")
    assert "theirs_code" not in sys.modules


def test_a_distribution_without_a_name_costs_only_its_own_name(site: Path) -> None:
    install_backend(site, "theirs", "their_npu")
    install_backend(site, "other", "other_npu")
    (site / "theirs-1.0.dist-info" / "METADATA").unlink()
    assert {p.name for p in plugins.installed(BACKENDS)} == {"their_npu", "other_npu"}
    assert find("other_npu").available() is None
