"""Recognisers of installed packages: loaded once, and what cannot be used costs only itself."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from tvm import tirx

from opinfo.analysis import RecogniserWarning, list_recognisers
from opinfo.analysis.registry import registry

from .plugin_site import GOOD, RECOGNISER, forget, install_recogniser, name_of


def test_a_recogniser_is_loaded_with_the_first_question(site: Path, flatten: tirx.PrimFunc) -> None:
    install_recogniser(site, "ours", RECOGNISER.format(name="mine", precedence=1))
    assert "ours_code" not in sys.modules
    assert name_of(flatten) == "relax.nn.batch_flatten"
    (row,) = [r for r in list_recognisers() if r.distribution == "ours"]
    assert (row.name, row.precedence, row.operators, row.distribution_version, row.unavailable) == (
        "mine", 1, ("relax.nn.batch_flatten",), "1.0", None)  # fmt: skip
    assert {r.distribution for r in list_recognisers()} == {"opinfo", "ours"}


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
    install_recogniser(site, "bad", source)
    install_recogniser(site, "good", RECOGNISER.format(name="yours", precedence=1))
    if errors:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert name_of(flatten) == "relax.nn.batch_flatten"
    else:
        pattern = rf"plug-in ignored: bad of bad 1\.0 \(bad_code\): .*{expected}"
        with pytest.warns(RecogniserWarning, match=pattern) as warned:
            assert name_of(flatten) == "relax.nn.batch_flatten"
        assert len(warned) == 1
    names = [r.name for r in registry.registered() if not r.built_in]
    assert names == ["yours"]
    (row,) = [r for r in list_recognisers() if r.unavailable]
    assert (row.name, row.distribution) == ("bad", "bad") and "bad 1.0" in str(row.unavailable)


def test_packages_may_choose_the_same_precedence(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reshape = next(r for r in registry.registered() if r.name == "reshape")
    forget()
    monkeypatch.setattr(registry, "_left_out", None)
    for name in ("z", "a"):
        install_recogniser(site, name, RECOGNISER.format(name=name, precedence=reshape.precedence))
    assert not [r for r in list_recognisers() if r.unavailable]
    order = [r.name for r in registry.registered() if r.precedence == reshape.precedence]
    assert order == ["a", "z", "reshape"]
