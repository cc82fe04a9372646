"""A raised module has an operator that only a recogniser package registers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from opinfo.analysis.support.plugins import RECOGNISERS

from ..common.packages import install

PACKAGE = """
from opinfo.analysis import Proposal, recogniser
from tvm import relax
from tvm.ir import Op, register_op_attr

register_op_attr("relax.plugin_twice", "FInferType", lambda call, ctx: call.args[0].ty)
register_op_attr("relax.plugin_twice", "FPurity", True)
register_op_attr("relax.plugin_twice", "FLegalize",
                 lambda bb, call: bb.emit(relax.op.add(call.args[0], call.args[0])))
relax.op.plugin_twice = lambda data: relax.Call(Op.get("relax.plugin_twice"), [data])

@recogniser("twice", precedence=1, ops=("relax.plugin_twice",))
def twice(f):
    return [Proposal("relax.plugin_twice", (0,))] if len(f.params) == 2 else []
"""
SAVE = """
import sys
sys.modules["torch"] = None  # TVM would import it
import tvm, theirs_code
from tvm import relax
x = relax.Var("x", relax.TensorType((4,), "float32"))
bb = relax.BlockBuilder()
with bb.function("main", [x]):
    bb.emit_func_output(bb.emit(relax.op.plugin_twice(x)))
open(sys.argv[1], "w").write(tvm.ir.save_json(bb.get()))
"""


def test_it_is_read_back_where_the_package_is_installed(tmp_path: Path) -> None:
    site, model = tmp_path / "site", tmp_path / "raised.json"
    install(site, "theirs", RECOGNISERS, {"theirs": "theirs_code"},
            {"theirs_code/__init__.py": PACKAGE})  # fmt: skip
    path = os.pathsep.join([str(site), *filter(None, sys.path)])

    def run(*words: str, plugins: str = "1") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": path, "OPINFO_PLUGINS": plugins}
        return subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=environment
        )

    assert run("-c", SAVE, str(model)).returncode == 0
    done = run("-m", "opinfo", "inspect", str(model))
    assert done.returncode == 0, done.stderr
    done = run("-m", "opinfo", "inspect", str(model), plugins="0")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "'relax.plugin_twice'; install the package that registers it" in done.stderr
