"""Shell completion offers existing names without importing TVM."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from opinfo.byoc.backend.catalog import find
from opinfo.cli.options import completion
from opinfo.cli.options.want_options import parse_wants
from opinfo.jit.config.strategy import NAMED
from opinfo.layout import plan_layout
from tests.layout import nets


def completed(*words: str) -> list[str]:
    """The completions of the last word in bash."""
    line = " ".join(["opinfo", *words])
    shell = {"_OPINFO_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    code = (
        "import sys\nfrom opinfo.cli import main\n"
        "try:\n    main()\nfinally:\n    assert 'tvm' not in sys.modules"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, env=os.environ | shell, capture_output=True, text=True)
    assert found.stderr == ""
    return [line for line in found.stdout.splitlines() if line]


def test_a_shell_is_offered_commands_and_values() -> None:
    assert completed("co") == ["compile"]
    words = ["compile", "m.onnx", "--backend"]
    assert completed(*words, "onednn,tv") == ["onednn,tvm"]
    assert "--backend" in completed("dispatch", "--ba")
    assert completed("inspect", "mod") == []  # the shell completes files


def test_the_names_are_those_that_there_are() -> None:
    assert set(completion.STRATEGIES) == set(NAMED)
    with pytest.raises(ValueError, match="unknown backend 'nobody'") as error:
        find("nobody")
    known = str(error.value).replace(",", " ").replace(";", " ").split()
    assert set(completion.BACKENDS) - {"tvm"} <= set(known)
    assert completion.backends("onednn,blas,onn") == ["onednn,blas,onnxruntime"]
    assert completion.backends("onednn,one") == []


@pytest.mark.parametrize("op", completion.LAYOUTS)
def test_wanted_layouts_are_accepted(op: str) -> None:
    mod = nets.net(lambda emit, rng, x: emit(x), (2, 3))
    assert completion.wants(op[:-1])[0].startswith(op[:-1])
    for want in completion.wants(f"{op}="):
        plan_layout(mod, parse_wants([want]))
