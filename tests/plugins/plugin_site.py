"""Packages with plug-ins, written to a folder that Python imports from."""

from __future__ import annotations

from pathlib import Path

import tvm
from tvm import relax, tirx

from opinfo.analysis import OpInfo, op_info
from opinfo.analysis.support import plugins
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
#: A recogniser that does what it says.
GOOD = RECOGNISER.format(name="mine", precedence=1)
FLATTEN = """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 5, 3), "float32"), out: T.Buffer((4, 15), "float32")):
    for i, j in T.grid(4, 15):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, vj // 3, vj % 3]
"""


def forget() -> None:
    plugins._installed.cache_clear()
    plugins.fingerprint.cache_clear()
    kernel_key.toolchain.cache_clear()


def install_backend(site: Path, package: str, name: str, **options: str) -> None:
    source = options.get("source", BACKEND.format(name=options.get("called", name)))
    install(site, package, BACKENDS, {name: f"{package}_code:NPU"},
            {f"{package}_code/__init__.py": source})  # fmt: skip


def install_recogniser(site: Path, package: str, source: str) -> None:
    install(site, package, RECOGNISERS, {package: f"{package}_code"},
            {f"{package}_code/__init__.py": source})  # fmt: skip


def name_of(func: tirx.PrimFunc) -> str:
    info = op_info(func)
    assert isinstance(info, OpInfo)
    return info.name


def relu_module() -> tvm.IRModule:
    return nets.net(lambda e, r, x: e(relax.op.nn.relu(x)), (2, 3))
