"""The names that users know from earlier versions of README: they work, or say the new name."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Any

import pytest
import typer

from opinfo.byoc import Unmet
from opinfo.byoc.matching.diagnose import FallbackOp
from opinfo.cli import app
from opinfo.cli.run.aliases import ALIASES, renamed
from opinfo.jit import Recording, compile_shapes, specialize_shapes
from tests.jit import modules

#: Of README before the rooms were laid out anew, and before the front door.
NAMES = """
opinfo.Session opinfo.compile opinfo.inspect opinfo.load
opinfo.analysis.annotation opinfo.analysis.invert opinfo.analysis.layout_normalised
opinfo.analysis.op_info opinfo.analysis.op_infos
opinfo.byoc.Measure opinfo.byoc.Tracker opinfo.byoc.dispatch opinfo.byoc.register
opinfo.jit.Aot opinfo.jit.Budget opinfo.jit.Compiler opinfo.jit.Config opinfo.jit.Dim
opinfo.jit.Generic opinfo.jit.Jit opinfo.jit.KernelStore opinfo.jit.Library opinfo.jit.Record
opinfo.jit.Session opinfo.jit.compile_shapes
opinfo.layout.count opinfo.layout.plan_layout
opinfo.transform.AnnotateOpInfo opinfo.transform.CancelLayoutTransforms
opinfo.transform.ConvertLayout opinfo.transform.PlanLayout opinfo.transform.RaiseOps
opinfo.transform.ReplaceOpImpl opinfo.transform.SpecializeShapes
""".split()
#: Names that go with the next release, which say the new one.
RENAMED = """
opinfo.analysis.Lifted opinfo.analysis.Result opinfo.byoc.abi.ABI opinfo.jit.Told
opinfo.layout.Report
""".split()
COMMANDS = {
    "inspect": "--shape --func --fused --explain --json",
    "plan": "--want --mode --explain --json --html --shape",
    "dispatch": "--backend --want --force --explain --json --shape",
    "compile": "--backend --want --force --explain --verify --report --save-plan --plan --tune "
    "--database --tracker --servers --threads --timeout --extent --output -o --shape",
    "specialize": "--strategy --op --dim --likely --range --max --pad --tuned --output -o --shape",
    "tune": "--database --trials --top --seconds --target --tracker --threads --timeout",
    "cache": "",
}


def named(name: str) -> Any:
    """What a name stands for, as `import opinfo` and attributes give it."""
    first, *rest = name.split(".")
    value: Any = import_module(first)
    for part in rest:
        try:
            value = getattr(value, part)
        except AttributeError:
            value = import_module(f"{value.__name__}.{part}")
    return value


@pytest.mark.parametrize(
    "value", [Unmet("it is not", "this"), FallbackOp("lv", "op", "it is not", "this")]
)
def test_a_field_that_was_renamed_warns(value: Any) -> None:
    with pytest.warns(DeprecationWarning, match="use .*suggestion"):
        assert value.mend == "this"


def test_a_method_that_was_renamed_warns() -> None:
    with pytest.warns(DeprecationWarning, match="use Recording.table"):
        assert Recording().told().row_count == 0


@pytest.mark.parametrize("function", [compile_shapes, specialize_shapes])
def test_a_parameter_that_was_renamed_warns(function: Any) -> None:
    with (
        pytest.warns(DeprecationWarning, match="parameter given is deprecated: use strategy"),
        pytest.raises(ValueError, match="expected a strategy"),
    ):
        function(modules.dense(), given="no_such")
    with (
        pytest.warns(DeprecationWarning, match="parameter given is deprecated: use strategy"),
        pytest.raises(TypeError, match="multiple values"),
    ):
        function(modules.dense(), "jit", given="jit")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_readme_works(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert callable(named(name))


@pytest.mark.parametrize("name", RENAMED)
def test_a_name_that_was_changed_warns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opinfo.byoc.abi", raising=False)
    monkeypatch.delattr("opinfo.byoc.abi", raising=False)
    with pytest.warns(DeprecationWarning, match=r"opinfo\.\w+\.\w+"):
        assert named(name) is not None


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_the_options_of_readme(command: str) -> None:
    words, warning = renamed([command, *COMMANDS[command].split()])
    assert bool(warning) == (command in ALIASES)
    click: Any = typer.main.get_command(app)
    options = {o for p in click.commands[words[0]].params for o in p.opts}
    assert set(words[1:]) - {"jit"} <= options
    everywhere = {o for p in click.params for o in p.opts}
    assert {"--version", "--quiet", "--traceback", "--install-completion"} <= everywhere


def test_the_commands_are_in_the_order_of_work() -> None:
    names = [c for c in typer.main.get_command(app).commands]  # type: ignore[attr-defined]
    verbs = ["inspect", "plan", "dispatch", "compile", "tune", "cache"]
    assert [n for n in names if n in verbs] == verbs and "specialize" not in names
